// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// DeviceTraffic is what a device and the hooks on it have counted.
type DeviceTraffic struct {
	Index          model.IfIndex
	Received, Sent uint64 // packets, by the device
	AtIngress      uint64 // packets, by the ingress hook, before the device was read; with those that left without the stack
	AtEgress       uint64
	Dropped        uint64 // of these at egress
	// Meanwhile are further packets that the hooks counted until the device had been read.
	MeanwhileAtIngress, MeanwhileAtEgress uint64
	XDP                                   *attach.OtherProgram
}

// Devices reads what served devices and their hooks have counted, and which programs of
// others they have in XDP.
func (d *Datapath) Devices() ([]DeviceTraffic, error) {
	earlier, err := d.hookPackets()
	if err != nil {
		return nil, err
	}
	links, err := listLinks()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	later, err := d.hookPackets()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]DeviceTraffic, 0, len(d.served))
	for _, l := range links {
		s := d.served[l.index]
		before, ok := earlier[l.index]
		if s == nil || !ok {
			continue
		}
		t := DeviceTraffic{
			Index:     l.index,
			Received:  l.received,
			Sent:      l.sent,
			AtIngress: before[0],
			AtEgress:  before[1],
			Dropped:   before[2],
			XDP:       d.othersXDP(s, l.xdp),
		}
		if after, ok := later[l.index]; ok {
			t.MeanwhileAtIngress, t.MeanwhileAtEgress = after[0]-before[0], after[1]-before[1]
		}
		out = append(out, t)
	}
	return out, nil
}

// hookPackets are the packets that the hooks of each interface have counted, at ingress and
// egress, and of these that the egress program dropped. What arrived and left elsewhere without the stack has passed no egress hook.
func (d *Datapath) hookPackets() (map[model.IfIndex][3]uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[model.IfIndex][3]uint64, len(d.served))
	for index, s := range d.served {
		c, err := d.tallies.read(s)
		if err != nil {
			return nil, err
		}
		var sum [3]uint64
		for o := range model.NumOutcomes {
			sum[0] += c.Ingress[o] + c.Forwarded[o]
			sum[1] += c.Egress[o]
			if o.Drops() {
				sum[2] += c.Egress[o]
			}
		}
		all[index] = sum
	}
	return all, nil
}

// linkCounts is what is looked at every two seconds of each link, of a thousand and more: so
// no other attribute is read.
type linkCounts struct {
	index          model.IfIndex
	received, sent uint64
	xdp            ebpf.ProgramID // 0: none
}

func listLinks() (links []linkCounts, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(message []byte) bool {
		if len(message) >= unix.SizeofIfInfomsg {
			l := linkCounts{index: model.IfIndex(nl.DeserializeIfInfomsg(message).Index)}
			l.read(message[unix.SizeofIfInfomsg:])
			links = append(links, l)
		}
		return true
	})
	return links, err
}

func (l *linkCounts) read(attributes []byte) {
	netlinkattr.Each(attributes, func(kind uint16, value []byte) {
		switch {
		case kind == unix.IFLA_STATS64 && len(value) >= 16: // struct rtnl_link_stats64
			l.received, l.sent = binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
		case kind == unix.IFLA_XDP:
			netlinkattr.Each(value, func(kind uint16, value []byte) {
				if kind >= unix.IFLA_XDP_PROG_ID && kind <= unix.IFLA_XDP_HW_PROG_ID && len(value) >= 4 { // with two modes, each has its own
					l.xdp = ebpf.ProgramID(binary.NativeEndian.Uint32(value))
				}
			})
		}
	})
}

// othersXDP is the program of someone else in XDP that runs before ours.
func (d *Datapath) othersXDP(s *served, id ebpf.ProgramID) *attach.OtherProgram {
	if id == 0 || s.ingress == nil || s.ingress.Mode == attach.XDP && s.ingress.Alive() {
		return nil
	}
	return &attach.OtherProgram{Program: uint32(id), Name: d.programName(id), Kind: string(attach.XDP)}
}
