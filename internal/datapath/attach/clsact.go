// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// clsactHandle distinguishes our filter from those of others.
const clsactHandle = 0x77617900

// clsactLast is the usual priority of our filter as the last one: filters with lower numbers run
// earlier, and those that the kernel chooses are from 49152 down.
const clsactLast = math.MaxUint16 - 1

// priorityTries is how many priorities are tried: another kind of filter may take one meanwhile.
const priorityTries = 8

func filterParent(ingress bool) uint32 {
	if ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

// addFilter installs our filter in its place.
func (a *Hook) addFilter(place model.Place) error {
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: int(a.index), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		},
		QdiscType: "clsact",
	}
	err := netlink.QdiscAdd(qdisc)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact: %w", err)
	}
	var others []filter
	if err != nil { // a new qdisc has none
		if others, err = filterChain(a.index, a.Ingress, ProgramName); err != nil {
			return err
		}
	}
	for _, priority := range filterPriorities(place, others) {
		if err = putFilter(a.index, a.Ingress, priority, a.Program); err == nil {
			a.priority = priority
			return nil
		}
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return err
}

// filterPriorities are the priorities for our filter among others, best first. A new filter runs
// before others of its priority, but a filter of another kind or protocol keeps a priority for
// itself.
func filterPriorities(place model.Place, others []filter) (list []uint16) {
	names, taken := make([]string, 0, len(others)), make(map[int]bool)
	for _, f := range others {
		names = append(names, f.Name)
		if !f.shares {
			taken[int(f.priority)] = true
		}
	}
	from := 1
	if seat := place.Seat(names); seat > 0 && place.Kind != model.PlaceBefore {
		from = int(others[seat-1].priority) + 1
	}
	if place.Kind == model.PlaceLast {
		from = max(from, clsactLast)
	}
	for p := from; p <= math.MaxUint16 && len(list) < priorityTries; p++ {
		if !taken[p] {
			list = append(list, uint16(p))
		}
	}
	for p := math.MaxUint16; p > 0 && len(list) == 0; p-- { // as late as it can be
		if !taken[p] {
			list = append(list, uint16(p))
		}
	}
	return list
}

// holdsAmong reports whether our filter, which runs after a number of others, has its place, or
// the nearest one that it can have: a new filter would come there, too.
func holdsAmong(place model.Place, others []filter, at int) bool {
	names := make([]string, len(others))
	for i, f := range others {
		names[i] = f.Name
	}
	if place.Holds(names[:at], names[at:]) {
		return true
	}
	list, seat := filterPriorities(place, others), 0
	for len(list) > 0 && seat < len(others) && others[seat].priority < list[0] {
		seat++
	}
	return len(list) == 0 || at == seat
}

// replaceFilter swaps the program of our filter in one step.
func (a *Hook) replaceFilter(program *ebpf.Program) error {
	return putFilter(a.index, a.Ingress, a.priority, program)
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
// clsact qdisc. Filters of other chains run only where one of these goes to them.
func filtersOf(index model.IfIndex, ingress bool) ([]netlink.Filter, error) {
	device := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: int(index)}}
	list, err := netlink.FilterList(device, filterParent(ingress))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return slices.DeleteFunc(list, func(f netlink.Filter) bool {
		chain := f.Attrs().Chain
		return chain != nil && *chain != 0
	}), err
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

func recoverFilter(index model.IfIndex, ingress bool) (*Hook, error) {
	f, err := findFilter(index, ingress)
	if f == nil || err != nil {
		return nil, err
	}
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(f.Id))
	if err != nil {
		return nil, fmt.Errorf("open the program of the filter on interface %d: %w", index, err)
	}
	return &Hook{index: index, Ingress: ingress, Mode: Clsact, Program: program, left: program,
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
	shares   bool // ours can have the same priority
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
		f := filter{priority: each.Attrs().Priority, ours: isOurs(each), OtherProgram: OtherProgram{Kind: string(Clsact)}}
		if b, ok := each.(*netlink.BpfFilter); ok {
			f.shares = b.Protocol == unix.ETH_P_ALL
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
