// SPDX-License-Identifier: Apache-2.0

// Package datapath loads, attaches, configures and reads the BPF programs. No
// other package deals with BPF.
//
// All interfaces share one set of programs, whose maps hold the tables of two
// generations. Apply writes a configuration into the tables that packets do not
// use, and then switches all hooks to it with one word. If the programs
// themselves change, or the tables need more room, Apply loads another set and
// swaps each hook's program. Start, restart and upgrade all do this, and a hook
// is never without a program unless its attach mode changes. Counters, records,
// the clock and frequencies outlive generations; all of it is pinned and outlives
// the agent.
package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/datapath/undo"
	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// served is an interface with programs on it.
type served struct {
	index      model.IfIndex
	name       string
	device     attach.Device
	tally      *ebpf.Map // its counters
	ingress    *attach.Hook
	egress     *attach.Hook
	place      model.Place // of its programs among those of others
	edges      [2]bool     // where the domain's edge filters, at egress and at ingress, as far as known
	putBack    [2]bool     // a change found no program on the hook and put it back, since the last look; at egress, ingress
	xdpRefused string
	leftovers  []*attach.Hook // attachments of other modes, found on recovery
}

// Datapath is the programs and maps of one network namespace.
type Datapath struct {
	options  Options
	specs    map[string]*ebpf.MapSpec
	shared   bpf.Maps
	demand   *rings.Demand
	tables   *tables // under applying, to change; mu, to read
	cards    atomic.Pointer[rings.PostcardRings]
	measured atomic.Pointer[measure.Table]

	// applying serializes changes; mu guards what readers see, and is held only
	// while hooks are swapped, not while the verifier runs.
	applying sync.Mutex
	mu       sync.Mutex
	served   map[model.IfIndex]*served
	leaving  sync.WaitGroup // programs that do nothing any more are taken off
	set      *programSet    // under applying; nil before the first Apply

	coverage *coverage.Log
	intact   time.Time // when all hooks were last known to have their programs, under mu

	sequences *flows.Sequences
	counting  *counting // of the last Apply, under applying; nil before the first one
	reading   rings.Progress

	// decapsulations are those of the last Apply; nil before the first one.
	decapsulations [][16]byte

	programNames map[ebpf.ProgramID]string // of others, under mu
	query        attach.Query              // under mu
	tallies      tallyReader               // under mu
}

// Open takes over what an earlier agent left under options.PinPath, or starts
// from nothing. Nothing that is attached changes until Apply.
func Open(options Options) (_ *Datapath, err error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("raise the memory lock limit: %w", err),
			"run it as root, or with CAP_SYS_RESOURCE",
		)
	}
	if _, err := kernelclock.Monotonic(); err != nil { // then times of programs could not be converted
		return nil, problem.Wrap(err, "run it as root, or with CAP_BPF and CAP_NET_ADMIN")
	}
	if err := os.MkdirAll(options.PinPath, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for pins: %w", err)
	}
	if err := pinLoopback(options.PinPath); err != nil {
		return nil, err
	}
	if err := bpf.RemoveUnknownPins(options.PinPath, slices.Concat(sharedMaps, tableNames, []string{mapLoopback}), options.Log); err != nil {
		return nil, err
	}
	specs, err := mapSpecs()
	if err != nil {
		return nil, err
	}
	d := &Datapath{
		options: options, specs: specs, served: make(map[model.IfIndex]*served), demand: rings.NewDemand(), sequences: flows.NewSequences(),
	}
	d.coverage = coverage.New(d.countedSince)
	d.sequences.Read = d.reading.ReadThrough
	d.sequences.Distrust() // what an earlier agent read is unknown
	var opened undo.Stack
	defer opened.OnError(&err)
	if d.shared, err = d.openShared(); err != nil {
		return nil, err
	}
	opened.AddClose(func() { d.shared.Close() })
	if err := flows.Begin(d.shared[bpf.MapFlowClock]); err != nil {
		return nil, err
	}
	if d.tables, err = d.recoverTables(); err != nil {
		return nil, err
	}
	opened.AddClose(func() { d.tables.close() })
	d.cards.Store(d.tables.cards)
	d.measured.Store(d.tables.measured)
	opened.AddClose(d.closeServed)
	if err := d.recover(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Datapath) directory(index model.IfIndex) string {
	return attach.Directory(d.options.PinPath, index)
}

// recover opens the interfaces with pins.
func (d *Datapath) recover() error {
	indexes, err := attach.PinnedInterfaces(d.options.PinPath)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		s, err := d.open(index)
		if err != nil {
			return err
		}
		found, err := attach.Recover(d.directory(s.index), s.index)
		for _, a := range found {
			switch {
			case a.Ingress && s.ingress == nil:
				s.ingress = a
			case !a.Ingress && s.egress == nil:
				s.egress = a
			default:
				s.leftovers = append(s.leftovers, a)
			}
		}
		d.served[s.index] = s
		if err != nil {
			return err
		}
	}
	return nil
}

// open makes an interface's directory and counters.
func (d *Datapath) open(index model.IfIndex) (*served, error) {
	s := &served{index: index}
	directory := d.directory(index)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for pins: %w", err)
	}
	path, err := bpf.PinPath(directory, bpf.PinTally, d.options.Log)
	if err != nil {
		return nil, err
	}
	if s.tally, err = bpf.Pinned(path, d.specs[bpf.MapTallies].InnerMap); err != nil {
		return nil, err
	}
	return s, nil
}

// Apply puts a configuration into force. On error everything stays as it was. The
// configuration must be valid (model.NodeConfig.Validate), and its interfaces
// must exist.
func (d *Datapath) Apply(cfg Config) (err error) {
	d.applying.Lock()
	defer d.applying.Unlock()
	started := time.Now()
	links, err := linksOf(cfg.Node.Interfaces)
	if err != nil {
		return err
	}
	devices := make(map[model.IfIndex]attach.Device)
	names := make(map[model.IfIndex]string)
	for index, link := range links {
		devices[index], names[index] = attach.DeviceOf(link, cfg.Fast[index]), link.Attrs().Name
	}
	g, err := compile.Node(cfg.Node, cfg.NextHops, func(i model.IfIndex) attach.Device { return devices[i] })
	if err != nil {
		return err
	}
	g.TakesOptions(cfg.StackOptions)
	if d.set != nil { // the previous generation's tables are free
		<-d.set.quiet
	}
	if cfg.Noticed.IsZero() || cfg.Noticed.After(started) {
		cfg.Noticed = started
	}
	var change undo.Stack
	defer change.OnError(&err)
	stale, fresh, err := assignFrequencies(g, d.shared)
	change.Add(func() error { return freeFrequencies(d.shared[bpf.MapFrequencies], fresh) })
	if err == nil {
		err = d.replace(&change, g, countingOf(cfg.Node), cfg, names)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	for index, name := range names {
		d.served[index].name, d.served[index].device = name, devices[index]
	}
	d.mu.Unlock()
	if err := freeFrequencies(d.shared[bpf.MapFrequencies], stale); err != nil {
		d.options.Log.Warn("forget encapsulations that are gone", "error", err)
	}
	d.options.Log.Debug("configuration applied", "interfaces", len(g.Interfaces), "took", time.Since(started))
	return nil
}

// linksOf looks up all interfaces at once.
func linksOf(interfaces []model.Interface) (map[model.IfIndex]netlink.Link, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	present := make(map[model.IfIndex]netlink.Link, len(all))
	for _, link := range all {
		present[model.IfIndex(link.Attrs().Index)] = link
	}
	links := make(map[model.IfIndex]netlink.Link, len(interfaces))
	for _, i := range interfaces {
		link, ok := present[i.Index]
		if !ok {
			return nil, fmt.Errorf("look up interface %q (%d): it does not exist", i.Name, i.Index)
		}
		links[i.Index] = link
	}
	return links, nil
}

// replace puts a generation into force: in the other tables of the running set's
// tables, or with a new set of programs. On an error, the steps of the change are to be taken
// back.
func (d *Datapath) replace(change *undo.Stack, g *compile.Generation, count *counting, cfg Config, names map[model.IfIndex]string) error {
	tables, err := d.tables.next(g, d.specs, d.shared)
	if err != nil {
		return err
	}
	change.AddClose(func() { tables.abandon(d.tables) })
	kept := make(bpf.Maps)
	maps.Copy(kept, d.shared)
	maps.Copy(kept, tables.maps)
	swap := d.newTransaction(change, cfg)
	isNew := d.set == nil || !d.set.serves(g, kept)
	if isNew {
		if swap.set, err = newProgramSet(g, d.specs, kept); err != nil {
			return err
		}
		change.AddClose(swap.set.close)
	}
	earlier := d.running()
	if err := assignProofs(g, tables.maps[bpf.MapProofs], earlier); err != nil {
		return err
	}
	measured, err := g.Measured.Begin(d.shared, tables.measured, d.tables.measured, measure.Digest(countingAt(g)), d.set == nil)
	if err != nil {
		return err
	}
	change.Add(measured.Undo)
	if err := d.swap(swap, g, cfg.Attach, isNew); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	swap.finish()
	before, left := d.set, d.names()
	d.set = swap.set
	d.retire(g)
	if isNew && before != nil {
		before.close()
	}
	d.set.retire(d.shared[bpf.MapRecords])
	d.useTables(tables)
	measured.Finish()
	nameOf := func(i model.IfIndex) string { return cmp.Or(names[i], left[i]) }
	if earlier != nil {
		d.noteCoverage(earlier, g, swap, nameOf, cfg.Noticed)
	} else if measured.Continues() {
		d.noteInherited(g, swap, nameOf)
	}
	d.intact = time.Now()
	d.countAs(count, swap.attached)
	d.decapsulations = append([][16]byte{}, g.TunnelEnds.Addresses...)
	return nil
}

// edgesOf says where the domain's edge filters, at egress and at ingress.
func edgesOf(node model.NodeConfig) map[model.IfIndex][2]bool {
	edges := make(map[model.IfIndex][2]bool, len(node.Interfaces))
	for _, i := range node.Interfaces {
		edges[i.Index] = [2]bool{i.Filters(false), i.Filters(true)}
	}
	return edges
}

// running is the generation that packets use, or nil.
func (d *Datapath) running() *compile.Generation {
	if d.set == nil {
		return nil
	}
	return d.set.filled[1-d.set.unusedIndex()]
}

// swap puts a generation into force. On an error, every hook has the program that it had.
func (d *Datapath) swap(t *transaction, g *compile.Generation, modes map[model.IfIndex]attach.Mode, isNew bool) error {
	t.change.AddClose(t.abandon)
	for _, in := range g.Interfaces {
		if err := t.prepare(g, in, modes[in.Index]); err != nil {
			return err
		}
	}
	if err := t.load(); err != nil {
		return err
	}
	if err := t.set.tally(t.tallies()); err != nil {
		return err
	}
	expected := make(map[model.IfIndex]bool)
	if isNew { // its tables must be complete before its programs are attached
		for _, in := range g.Interfaces {
			expected[in.Index] = t.willForwardFast(in)
		}
		if err := t.set.activate(g, t.willForwardFast); err != nil {
			return err
		}
	}
	before := t.change.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := t.commit()
	if err == nil && !(isNew && t.isAsExpected(expected)) {
		err = t.set.activate(g, t.forwardsFast)
	}
	if err != nil { // before anyone sees the hooks
		return errors.Join(err, t.change.BackTo(before))
	}
	return nil
}

// Intact reports whether every program is still where Apply put it. An interface
// that was deleted and made again with its old index has no programs, and other
// programs may detach ours; Apply repairs both.
func (d *Datapath) Intact() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.served {
		if s.ingress == nil || s.egress == nil || !s.ingress.Alive() || !s.egress.Alive() || !s.device.IsCurrent(s.index) {
			return false
		}
	}
	d.intact = time.Now()
	return true
}

// retire detaches the programs of interfaces that are no longer configured.
func (d *Datapath) retire(g *compile.Generation) {
	kept := make(map[model.IfIndex]bool, len(g.Interfaces))
	for _, in := range g.Interfaces {
		kept[in.Index] = true
	}
	d.set.forget(func(index model.IfIndex) bool { return kept[index] })
	var left []*served
	for index, s := range d.served {
		if !kept[index] {
			left = append(left, s)
			delete(d.served, index)
		}
	}
	if err := d.leave(left); err != nil {
		d.options.Log.Warn("leave interfaces", "number", len(left), "error", err)
	}
}

// Interfaces returns how each interface is served.
func (d *Datapath) Interfaces() []InterfaceStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []InterfaceStatus
	for _, s := range d.served {
		status := InterfaceStatus{Index: s.index, Name: s.name, NativeXDPRefused: s.xdpRefused}
		if s.ingress != nil {
			status.Ingress = s.ingress.Mode
			status.FastRefused = s.device.Refused(s.ingress.Mode)
		}
		if s.egress != nil {
			status.Egress = s.egress.Mode
		}
		out = append(out, status)
	}
	slices.SortFunc(out, func(a, b InterfaceStatus) int { return int(a.Index) - int(b.Index) })
	return out
}

// SetTAIOffset gives the programs TAI − UTC.
func (d *Datapath) SetTAIOffset(offset time.Duration) error {
	err := d.shared[bpf.MapClock].Put(uint32(0), bpf.ABIClockState{TaiOffset: offset.Nanoseconds()})
	if err != nil {
		return fmt.Errorf("set the clock's offset: %w", err)
	}
	return nil
}

// Close releases everything in this process; packets keep their treatment.
func (d *Datapath) Close() error {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeServed()
	if d.set != nil {
		d.set.close()
		d.set = nil
	}
	d.cards.Store(nil)
	d.measured.Store(nil)
	d.tables.close()
	d.shared.Close()
	return nil
}

// closeServed closes the interfaces' attachments and counters in this process.
func (d *Datapath) closeServed() {
	for _, s := range d.served {
		for _, a := range append(s.leftovers, s.ingress, s.egress) {
			if a != nil {
				a.Close()
			}
		}
		s.tally.Close()
	}
	d.served = make(map[model.IfIndex]*served)
}

// Remove ends the treatment of all packets and removes every pin. With many interfaces, some
// programs that do nothing are still on their hooks until AwaitLeft returns, or this process
// ends.
func (d *Datapath) Remove() error {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	errs = append(errs, d.leave(slices.Collect(maps.Values(d.served))))
	clear(d.served)
	if d.set != nil {
		d.set.close()
		d.set = nil
	}
	d.cards.Store(nil)
	d.measured.Store(nil)
	d.tables.close()
	d.shared.Close()
	errs = append(errs, os.RemoveAll(d.options.PinPath))
	return errors.Join(errs...)
}
