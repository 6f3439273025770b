// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// The filter's place: the handle distinguishes it from others' filters.
const (
	filterHandle   = 0x6c6f7373
	filterPriority = math.MaxUint16
)

// filter is an attached program with its maps.
type filter struct {
	filter          *netlink.BpfFilter
	rules, counters *ebpf.Map
	detours, counts *ebpf.Map // counts are those of the detour

	colourings, blocks *ebpf.Map
}

func (f *filter) maps() []*ebpf.Map {
	return []*ebpf.Map{f.rules, f.counters, f.detours, f.counts, f.colourings, f.blocks}
}

// setMaps takes over the program's maps by their names.
func (f *filter) setMaps(maps map[string]*ebpf.Map) {
	f.rules, f.counters = maps[lossMapRules], maps[lossMapCounters]
	f.detours, f.counts = maps[lossMapDetours], maps[lossMapDetourCounts]
	f.colourings, f.blocks = maps[lossMapColourings], maps[lossMapBlocks]
}

func (f *filter) close() {
	for _, m := range f.maps() {
		m.Close()
	}
}

func egress(device string) (netlink.Link, error) {
	l, err := netlink.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("find the interface %s: %w", device, err)
	}
	return l, nil
}

// attach loads the program and makes it the last filter of an interface's egress.
func attach(device string) (*filter, error) {
	l, err := egress(device)
	if err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise the limit of locked memory: %w", err)
	}
	var objects lossObjects
	if err := loadLossObjects(&objects, nil); err != nil {
		return nil, fmt.Errorf("load the program that loses packets: %w", err)
	}
	defer objects.Lose.Close() // the filter holds it
	f := &filter{
		rules:      objects.Rules,
		counters:   objects.Counters,
		detours:    objects.Detours,
		counts:     objects.DetourCounts,
		colourings: objects.Colourings,
		blocks:     objects.Blocks,
	}
	f.filter = &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: filterHandle,
			Priority: filterPriority, Protocol: unix.ETH_P_ALL,
		},
		Fd: objects.Lose.FD(), Name: "waymark_loss", DirectAction: true,
	}
	err = netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		},
		QdiscType: "clsact",
	})
	if errors.Is(err, unix.EEXIST) {
		err = nil
	}
	if err == nil {
		err = netlink.FilterAdd(f.filter)
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("attach the program that loses packets to %s: %w", device, err)
	}
	return f, nil
}

// find opens the filter of an interface; nil if it has none.
func find(device string) (*filter, error) {
	l, err := egress(device)
	if err != nil {
		return nil, err
	}
	filters, err := netlink.FilterList(l, netlink.HANDLE_MIN_EGRESS)
	if err != nil {
		return nil, nil // no clsact
	}
	for _, each := range filters {
		if b, ok := each.(*netlink.BpfFilter); ok && b.Handle == filterHandle && b.Priority == filterPriority {
			f, err := open(b)
			if err != nil {
				return nil, fmt.Errorf("open the program that loses packets on %s: %w", device, err)
			}
			return f, nil
		}
	}
	return nil, nil
}

// open opens the maps of a filter's program.
func open(b *netlink.BpfFilter) (*filter, error) {
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(b.Id))
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	ids, _ := info.MapIDs()
	maps := make(map[string]*ebpf.Map)
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err == nil {
			var info *ebpf.MapInfo
			if info, err = m.Info(); err == nil {
				maps[info.Name] = m
				continue
			}
			m.Close()
		}
		closeAll(maps)
		return nil, err
	}
	f := &filter{filter: b}
	f.setMaps(maps)
	if slices.Contains(f.maps(), nil) || len(maps) != len(f.maps()) {
		closeAll(maps)
		return nil, problem.New("its maps are those of another version of this program", "remove the lab")
	}
	return f, nil
}

func closeAll(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		m.Close()
	}
}

func (f *filter) list() ([]Active, error) {
	var list []Active
	for i := range f.rules.MaxEntries() {
		var k lossRule
		if err := f.rules.Lookup(i, &k); err != nil {
			return nil, fmt.Errorf("read rule %d: %w", i+1, err)
		}
		if k.Pattern == lossPatternPATTERN_NONE {
			continue
		}
		counts, err := f.countsOf(i)
		if err != nil {
			return nil, err
		}
		list = append(list, Active{Number: int(i) + 1, Rule: k.rule(), Counts: counts})
	}
	return list, nil
}

func (f *filter) countsOf(i uint32) (Counts, error) {
	var c lossCounts
	if err := f.counters.Lookup(i, &c); err != nil {
		return Counts{}, fmt.Errorf("read the counters of rule %d: %w", i+1, err)
	}
	return c.exported(), nil
}

func (c lossCounts) exported() Counts {
	return Counts{Frames: c.Frames, Packets: c.Packets, LostFrames: c.LostFrames, LostPackets: c.LostPackets}
}

// kernelPrefix has the words of the address in the packet's order.
func kernelPrefix(p netip.Prefix) (k lossPrefix) {
	if !p.IsValid() {
		return k
	}
	address, mask := p.Addr().As16(), net.CIDRMask(p.Bits(), 128)
	for i := range k.Value {
		k.Value[i], k.Mask[i] = binary.NativeEndian.Uint32(address[4*i:]), binary.NativeEndian.Uint32(mask[4*i:])
	}
	return k
}

// prefix is invalid when it holds all addresses: that is how one is left out.
func (k lossPrefix) prefix() netip.Prefix {
	var address [16]byte
	mask := make(net.IPMask, 16)
	for i := range k.Value {
		binary.NativeEndian.PutUint32(address[4*i:], k.Value[i])
		binary.NativeEndian.PutUint32(mask[4*i:], k.Mask[i])
	}
	bits, _ := mask.Size()
	if bits == 0 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(netip.AddrFrom16(address), bits)
}
