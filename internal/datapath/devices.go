// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// DeviceTraffic is what a device and the hooks on it have counted.
type DeviceTraffic struct {
	Index          model.IfIndex
	Received, Sent uint64 // packets, by the device
	AtIngress      uint64 // packets, by the ingress hook
	AtEgress       uint64
	Forwarded      uint64 // packets that arrived here and left elsewhere without the stack, so without an egress hook
	XDP            *OtherProgram
}

// Devices reads what served devices and their hooks have counted, and which programs of
// others they have in XDP.
func (d *Datapath) Devices() ([]DeviceTraffic, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]DeviceTraffic, 0, len(d.served))
	xdp := make([]ebpf.ProgramID, 0, len(d.served))
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	err := request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(message []byte) bool {
		if len(message) < unix.SizeofIfInfomsg {
			return true
		}
		index := model.IfIndex(nl.DeserializeIfInfomsg(message).Index)
		if d.served[index] == nil {
			return true
		}
		t := DeviceTraffic{Index: index}
		xdp = append(xdp, t.readLink(message[unix.SizeofIfInfomsg:]))
		out = append(out, t)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	for i := range out {
		t := &out[i]
		s := d.served[t.Index]
		c, err := d.tallies.read(s)
		if err != nil {
			return nil, err
		}
		t.XDP = d.othersXDP(s, xdp[i])
		for o := range model.NumOutcomes {
			t.AtIngress += c.Ingress[o]
			t.AtEgress += c.Egress[o]
			t.Forwarded += c.Forwarded[o]
		}
	}
	return out, nil
}

// readLink reads the attributes of a link, and returns its program in XDP, or 0. A thousand
// interfaces are read every two seconds, so it reads what is needed and no more.
func (t *DeviceTraffic) readLink(attributes []byte) (xdp ebpf.ProgramID) {
	netlinkattr.Each(attributes, func(kind uint16, value []byte) {
		switch {
		case kind == unix.IFLA_STATS64 && len(value) >= 16: // struct rtnl_link_stats64
			t.Received, t.Sent = binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
		case kind == unix.IFLA_XDP:
			netlinkattr.Each(value, func(kind uint16, value []byte) {
				if kind == nl.IFLA_XDP_PROG_ID && len(value) >= 4 {
					xdp = ebpf.ProgramID(binary.NativeEndian.Uint32(value))
				}
			})
		}
	})
	return xdp
}

// othersXDP is the program of someone else in XDP that runs before ours.
func (d *Datapath) othersXDP(s *served, id ebpf.ProgramID) *OtherProgram {
	if id == 0 || s.ingress == nil || s.ingress.mode == AttachXDP {
		return nil
	}
	return &OtherProgram{Program: uint32(id), Name: d.programName(id), Kind: string(AttachXDP)}
}
