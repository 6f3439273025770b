// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

// Taps look at the packets of interfaces that are not served, for those of measured flows:
// they pass uncounted. A tap is a packet socket whose filter takes no packet, so the
// interface has no hook of ours and its packets are as they were.
type Taps struct {
	findTargets  func() (*Targets, error) // nil while no arriving flow is measured
	current      func() *Table            // in use now
	notedPackets *ebpf.Map
	table        *Table // whose flows the programs find
	taps         map[model.IfIndex]*tap
	names        map[model.IfIndex]string    // of all interfaces but those that were closed
	noticedAt    map[model.IfIndex]time.Time // since when packets may have come, until the tap is read
}

// NewTaps makes taps that look where look says; none is open yet. Programs note packets in a
// map, by the numbers of the flows of the current table.
func NewTaps(look func() (*Targets, error), current func() *Table, noted *ebpf.Map) *Taps {
	return &Taps{
		findTargets: look, current: current, notedPackets: noted,
		taps: make(map[model.IfIndex]*tap), names: make(map[model.IfIndex]string), noticedAt: make(map[model.IfIndex]time.Time),
	}
}

// tap is one socket.
type tap struct {
	socket  int
	member  bool
	program *ebpf.Program
}

// MostTaps is how many interfaces are looked at.
const MostTaps = 256

// Unserved is where packets of a measured flow passed uncounted.
type Unserved struct {
	Interface string
	Flow      string
	Packets   uint64
	Since     time.Time // when the interface was noticed; zero: it was looked at before
}

// Follow opens taps at the interfaces that are there now and not served, and closes others;
// none while no arriving flow is measured. noticed is when those may have come that are new.
// It returns how many had no room. On an error, taps that are open stay so.
func (t *Taps) Follow(noticed time.Time) (left int, err error) {
	look, err := t.findTargets()
	if err != nil {
		return 0, err
	}
	if look == nil {
		t.Close()
		return 0, nil
	}
	t.names = look.Names
	for index := range t.taps {
		if _, ok := look.At[index]; !ok {
			t.close(index)
			delete(t.names, index) // it may be served: what was noted since then was counted
		}
	}
	var failed []error
	for index, member := range look.At {
		was := t.taps[index]
		switch {
		case was == nil && len(t.taps) == MostTaps:
			left++
			continue
		case was != nil && was.member == member && was.isAt(index) && was.use(look.Programs[member]):
			continue
		}
		next, e := openTap(index, member, look.Programs[member])
		if e != nil {
			failed = append(failed, fmt.Errorf("look at the packets of %s: %w", look.Names[index], e))
			continue
		}
		if was == nil || !was.isAt(index) {
			t.noticedAt[index] = noticed
		}
		if was != nil {
			was.close()
		}
		t.taps[index] = next
	}
	if t.table != look.Table { // notes have the numbers of another table's flows, and numbers were given out again
		t.table = look.Table
		t.takeNoted()
	}
	return left, errors.Join(failed...)
}

// openTap opens a socket that gets no packet. That of a member gets what arrives before the
// master takes it.
func openTap(index model.IfIndex, member bool, program *ebpf.Program) (*tap, error) {
	protocol := uint16(unix.ETH_P_IPV6)
	if member {
		protocol = unix.ETH_P_ALL
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &tap{socket: socket, member: member, program: program}
	err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, program.FD())
	if err == nil && member {
		err = unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	}
	if err == nil {
		err = unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: int(index)})
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// isAt reports whether the tap is still at its interface: the kernel takes it off one that
// goes, and another may have the same index.
func (t *tap) isAt(index model.IfIndex) bool {
	address, err := unix.Getsockname(t.socket)
	at, ok := address.(*unix.SockaddrLinklayer)
	return err == nil && ok && at.Ifindex == int(index)
}

// use takes the program of another set, without a time in which none looks.
func (t *tap) use(program *ebpf.Program) bool {
	if t.program == program {
		return true
	}
	t.program = program
	return unix.SetsockoptInt(t.socket, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, program.FD()) == nil
}

func (t *tap) close() { unix.Close(t.socket) }

// Read gives where packets of measured flows passed uncounted since it was called last.
func (t *Taps) Read() (list []Unserved) {
	table := t.current()
	if len(t.names) == 0 || t.table != table {
		return nil
	}
	flows := table.arriving()
	for key, packets := range t.takeNoted() {
		index := model.IfIndex(key.Ifindex)
		flow, name := flows[key.Number], t.names[index]
		if flow != "" && name != "" {
			list = append(list, Unserved{Interface: name, Flow: flow, Packets: packets, Since: t.noticedAt[index]})
		}
	}
	clear(t.noticedAt)
	return list
}

// takeNoted returns the packets that were noted, and removes them.
func (t *Taps) takeNoted() map[bpf.ABIUnservedKey]uint64 {
	var key bpf.ABIUnservedKey
	var packets uint64
	taken := make(map[bpf.ABIUnservedKey]uint64)
	for each := t.notedPackets.Iterate(); each.Next(&key, &packets); {
		taken[key] = 0
	}
	for key := range taken {
		if err := t.notedPackets.LookupAndDelete(key, &packets); err != nil {
			delete(taken, key) // it made room for another
			continue
		}
		taken[key] = packets
	}
	return taken
}

// arriving are the names of the flows that arrive, by number.
func (t *Table) arriving() map[uint32]string {
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
	t.taps[index].close()
	delete(t.taps, index)
	delete(t.noticedAt, index)
}

// Close closes all taps.
func (t *Taps) Close() {
	for index := range t.taps {
		t.close(index)
	}
	t.table = nil
}
