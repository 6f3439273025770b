// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/model"
)

// Taps look at the packets of interfaces that are not served, for those of measured flows:
// they pass uncounted. A tap is a packet socket whose filter takes no packet, so the
// interface has no hook of ours and its packets are as they were.
type Taps struct {
	datapath *Datapath
	program  *ebpf.Program
	sockets  map[model.IfIndex]int
	names    map[model.IfIndex]string
	opened   map[model.IfIndex]time.Time // when the device was noticed, until it is read
}

// MostTaps is how many interfaces are looked at.
const MostTaps = 256

// NewTaps makes taps for a data plane; none is open yet.
func (d *Datapath) NewTaps() *Taps {
	return &Taps{datapath: d, sockets: make(map[model.IfIndex]int), names: make(map[model.IfIndex]string), opened: make(map[model.IfIndex]time.Time)}
}

// Unserved is where packets of a measured flow passed uncounted.
type Unserved struct {
	Interface string
	Flow      string
	Packets   uint64
	Since     time.Time // when the interface was noticed; zero: it was looked at before
}

// Follow opens taps at the interfaces that are there now and not served, and closes others;
// none while no arriving flow is measured. noticed is when those may have come that are new.
// It returns how many had no room.
func (t *Taps) Follow(noticed time.Time) (left int, err error) {
	program, wanted, err := t.datapath.tapped()
	if err != nil || program == nil {
		t.Close()
		return 0, err
	}
	if t.program != program { // that of another set
		t.Close()
		t.program = program
		t.names[0] = "" // what was noted before these taps is not said
		t.Read()
		delete(t.names, 0)
	}
	for index := range t.sockets {
		if _, ok := wanted[index]; !ok {
			t.close(index)
		}
	}
	for index, name := range wanted {
		t.names[index] = name
		if _, has := t.sockets[index]; has {
			continue
		}
		if len(t.sockets) == MostTaps {
			left++
			continue
		}
		socket, e := openTap(index, program)
		if e != nil {
			err = fmt.Errorf("look at the packets of %s: %w", name, e)
			continue
		}
		t.sockets[index], t.opened[index] = socket, noticed
	}
	return left, err
}

// openTap opens a socket that gets no packet.
func openTap(index model.IfIndex, program *ebpf.Program) (socket int, err error) {
	const ipv6 = 0xdd86 // ETH_P_IPV6, big endian
	socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, program.FD()); err == nil {
		err = unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: ipv6, Ifindex: int(index)})
	}
	if err != nil {
		unix.Close(socket)
		return 0, err
	}
	return socket, nil
}

// tapped are the program of taps, and the interfaces that are to have one, by name. No
// program: none is.
func (d *Datapath) tapped() (*ebpf.Program, map[model.IfIndex]string, error) {
	d.applying.Lock()
	defer d.applying.Unlock()
	g := d.running()
	if g == nil || g.measuring.marking.Selected[abiDirectionDIRECTION_IN] == 0 {
		return nil, nil, nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, nil, fmt.Errorf("list the interfaces: %w", err)
	}
	program, err := d.set.program(variant{hook: hookTap})
	return program, g.untouched(links), err
}

// passive are the kinds of devices by which no packet comes that was not seen elsewhere, or
// would be: what is in a tunnel of IPv6 in IPv6 is looked at before that is taken off.
var passive = []string{"ifb", "dummy", "vrf", "ip6tnl", "vti6", "netdevsim", "nlmon"}

// untouched are the interfaces whose packets no hook sees: neither their own nor one of a
// device below.
func (g *generation) untouched(links []netlink.Link) map[model.IfIndex]string {
	seen, below := make(map[model.IfIndex]bool), make(map[int]int)
	for _, in := range g.interfaces {
		seen[in.index] = true
	}
	for _, u := range g.uppers {
		seen[model.IfIndex(u.Ifindex)] = true
	}
	for _, l := range links {
		if a := l.Attrs(); a.ParentIndex != 0 && a.NetNsID < 0 && l.Type() != "veth" {
			below[a.Index] = a.ParentIndex
		}
	}
	out := make(map[model.IfIndex]string)
	for _, l := range links {
		a := l.Attrs()
		if a.RawFlags&unix.IFF_LOOPBACK != 0 || slices.Contains(passive, l.Type()) {
			continue
		}
		index, hidden := a.Index, false
		for range len(links) { // a chain of devices has no more
			if hidden = hidden || seen[model.IfIndex(index)]; below[index] == 0 {
				break
			}
			index = below[index]
		}
		if !hidden {
			out[model.IfIndex(a.Index)] = a.Name
		}
	}
	return out
}

// Read gives where packets of measured flows passed uncounted since it was called last.
func (t *Taps) Read() (list []Unserved) {
	if len(t.names) == 0 {
		return nil
	}
	noted := t.datapath.shared[mapUnserved]
	var key abiUnservedKey
	var packets uint64
	var keys []abiUnservedKey
	for each := noted.Iterate(); each.Next(&key, &packets); {
		keys = append(keys, key)
	}
	flows := t.datapath.measured.Load().arriving()
	for _, key := range keys {
		if err := noted.LookupAndDelete(key, &packets); err != nil {
			continue // it made room for another
		}
		index := model.IfIndex(key.Ifindex)
		flow, name := flows[key.Number], t.names[index]
		if flow != "" && name != "" {
			list = append(list, Unserved{Interface: name, Flow: flow, Packets: packets, Since: t.opened[index]})
		}
	}
	clear(t.opened)
	return list
}

// arriving are the names of the flows that arrive, by number.
func (t *measuredTable) arriving() map[uint32]string {
	names := make(map[uint32]string)
	if t == nil {
		return names
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, at := range t.numbers {
		if at.way == coverage.Arrivals {
			names[at.number] = name
		}
	}
	return names
}

func (t *Taps) close(index model.IfIndex) {
	unix.Close(t.sockets[index])
	delete(t.sockets, index)
	delete(t.names, index)
	delete(t.opened, index)
}

// Close closes all taps.
func (t *Taps) Close() {
	for index := range t.sockets {
		t.close(index)
	}
	t.program = nil
}
