// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/problem"
)

// Attached returns the interfaces of this network namespace that have programs
// pinned at a path, whether their agent lives or not. It changes nothing.
func Attached(pinPath string) ([]InterfaceStatus, error) {
	indexes, err := attach.PinnedInterfaces(pinPath)
	if err != nil {
		return nil, err
	}
	var out []InterfaceStatus
	for _, index := range indexes {
		status := InterfaceStatus{Index: index}
		for _, mode := range []attach.Mode{attach.XDP, attach.TCX, attach.Clsact} {
			directory := attach.Directory(pinPath, index)
			if attach.IsAttached(directory, index, true, mode) {
				status.Ingress = mode
			}
			if attach.IsAttached(directory, index, false, mode) {
				status.Egress = mode
			}
		}
		if status.Ingress == "" && status.Egress == "" {
			continue
		}
		if device, err := netlink.LinkByIndex(int(index)); err == nil {
			status.Name = device.Attrs().Name
		}
		out = append(out, status)
	}
	return out, nil
}

// Decapsulations are the tunnel destinations that the attached programs
// decapsulate, including programs that an earlier agent left.
func (d *Datapath) Decapsulations() ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []netip.Addr
	for _, s := range d.served {
		if s.ingress == nil {
			continue
		}
		ends := d.decapsulations
		if ends == nil {
			var err error
			if ends, err = decapsulationsOf(s.ingress.Program); err != nil {
				return nil, fmt.Errorf("read the tunnels that end at interface %d: %w", s.index, err)
			}
		}
		for _, end := range ends {
			list = append(list, netip.AddrFrom16(end))
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list), nil
}

// decapsulationsOf reads a program's own maps, which belong to its generation.
func decapsulationsOf(program *ebpf.Program) ([][16]byte, error) {
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	ids, ok := info.MapIDs()
	if !ok {
		return nil, errors.New("the kernel does not report a program's maps")
	}
	own := make(bpf.Maps)
	defer own.Close()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return nil, err
		}
		info, err := m.Info()
		if err != nil || own[info.Name] != nil {
			m.Close()
			continue
		}
		own[info.Name] = m
	}
	return destinations(own[bpf.MapDecapsulations], own[bpf.MapState])
}

// destinations are the keys of the generation in use. A version with only one
// generation in its maps had no state.
func destinations(ends, state *ebpf.Map) (list [][16]byte, err error) {
	if ends == nil {
		return nil, nil
	}
	var current bpf.ABIState
	if state != nil {
		if err := state.Lookup(uint32(0), &current); err != nil {
			return nil, err
		}
	}
	var key, end []byte // in the layout of the version that left them
	entries := ends.Iterate()
	for entries.Next(&key, &end) {
		if len(key) == 16 {
			list = append(list, [16]byte(key))
			continue
		}
		var destination bpf.ABIDestinationKey
		if len(key) != binary.Size(destination) {
			return nil, problem.New("another version's program", "start its agent to see them")
		}
		destination.Address = [2]uint64{binary.NativeEndian.Uint64(key), binary.NativeEndian.Uint64(key[8:])}
		destination.TablesIndex = binary.NativeEndian.Uint32(key[16:])
		if destination.TablesIndex == current.Current {
			list = append(list, bpf.AddressOf(destination.Address).As16())
		}
	}
	return list, entries.Err()
}
