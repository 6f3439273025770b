// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// clsactHandle distinguishes our filter from those of others.
const clsactHandle = 0x77617900

// The priorities of our filter: filters with lower numbers run earlier. The last is behind
// those that the kernel chooses, from 49152 down.
const (
	clsactFirst  = 1
	clsactSecond = 0x7761 // where another kind of filter has the first
	clsactLast   = math.MaxUint16 - 1
)

func filterParent(ingress bool) uint32 {
	if ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

// addFilter installs our filter in its place.
func (a *attachment) addFilter(place model.Place) error {
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: int(a.index), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		},
		QdiscType: "clsact",
	}
	if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact: %w", err)
	}
	var chain []filter
	if place.Kind == model.PlaceAfter {
		var err error
		if chain, err = filterChain(a.index, a.ingress, nameOf); err != nil {
			return err
		}
	}
	var err error
	for _, priority := range filterPriorities(place, chain) {
		if err = putFilter(a.index, a.ingress, priority, a.program); err == nil {
			a.priority = priority
			return nil
		}
		// another kind of filter, or of another protocol, may have the priority
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return err
}

// filterPriorities are the priorities to try, best first. A new filter runs before others
// of its priority.
func filterPriorities(place model.Place, chain []filter) []uint16 {
	switch place.Kind {
	case model.PlaceLast:
		return []uint16{clsactLast, clsactSecond}
	case model.PlaceAfter:
		names := make([]string, 0, len(chain))
		for _, f := range chain {
			names = append(names, f.Name)
		}
		if seat := place.Seat(names); seat > 0 {
			after := chain[seat-1].priority
			var list []uint16
			for k := uint16(1); k <= 8 && after < clsactLast-k; k++ {
				list = append(list, after+k)
			}
			return append(list, clsactLast)
		}
	}
	return []uint16{clsactFirst, clsactSecond}
}

// replaceFilter swaps the program of our filter in one step.
func (a *attachment) replaceFilter(program *ebpf.Program) error {
	return putFilter(a.index, a.ingress, a.priority, program)
}

func putFilter(index model.IfIndex, ingress bool, priority uint16, program *ebpf.Program) error {
	return netlink.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(index), Parent: filterParent(ingress), Handle: clsactHandle,
			Priority: priority, Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: "waymark", DirectAction: true,
	})
}

// filtersOf lists the filters of a hook, in the order in which they run; none without a
// clsact qdisc.
func filtersOf(index model.IfIndex, ingress bool) ([]netlink.Filter, error) {
	device := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: int(index)}}
	list, err := netlink.FilterList(device, filterParent(ingress))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return list, err
}

func isOurs(f netlink.Filter) bool {
	b, ok := f.(*netlink.BpfFilter)
	return ok && b.Handle == clsactHandle
}

func findFilter(index model.IfIndex, ingress bool) (*netlink.BpfFilter, error) {
	list, err := filtersOf(index, ingress)
	if err != nil {
		return nil, fmt.Errorf("list the filters of interface %d: %w", index, err)
	}
	for _, f := range list {
		if isOurs(f) {
			return f.(*netlink.BpfFilter), nil
		}
	}
	return nil, nil
}

func recoverFilter(index model.IfIndex, ingress bool) (*attachment, error) {
	f, err := findFilter(index, ingress)
	if f == nil || err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(f.Id))
	if err != nil {
		return nil, fmt.Errorf("open the program of the filter on interface %d: %w", index, err)
	}
	return &attachment{index: index, ingress: ingress, mode: AttachClsact, program: program, left: program,
		id: ebpf.ProgramID(f.Id), priority: f.Priority}, nil
}

func removeFilter(index model.IfIndex, ingress bool) error {
	f, err := findFilter(index, ingress)
	if f == nil || err != nil {
		return err
	}
	return netlink.FilterDel(f)
}

// filter is one filter of a clsact hook.
type filter struct {
	OtherProgram
	priority uint16
	ours     bool
}

// filterChain lists the filters of a hook, in the order in which they run. A classifier of
// several entries is one.
func filterChain(index model.IfIndex, ingress bool, name func(ebpf.ProgramID) string) ([]filter, error) {
	list, err := filtersOf(index, ingress)
	if err != nil {
		return nil, fmt.Errorf("list the filters of interface %d: %w", index, err)
	}
	var chain []filter
	for _, each := range list {
		f := filter{priority: each.Attrs().Priority, ours: isOurs(each), OtherProgram: OtherProgram{Kind: string(AttachClsact)}}
		if b, ok := each.(*netlink.BpfFilter); ok {
			if !b.DirectAction && b.ClassId == 0 && b.Fd == 0 && b.Id == 0 {
				continue
			}
			f.Program = uint32(b.Id)
			f.Name = name(ebpf.ProgramID(b.Id))
		} else {
			f.Name = fmt.Sprintf("%s filter of priority %d", each.Type(), f.priority)
			if n := len(chain); n > 0 && chain[n-1].Name == f.Name {
				continue
			}
		}
		chain = append(chain, f)
	}
	return chain, nil
}
