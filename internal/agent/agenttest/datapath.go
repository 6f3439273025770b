// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/model"
)

// Datapath records its calls, and can refuse them.
type Datapath struct {
	coverage coverage.Log

	Wanted       atomic.Bool  // records
	Asked        atomic.Int64 // how many of them
	Asks         atomic.Int64 // how often that was said
	Pauses       atomic.Int64 // how often none were
	Mu           sync.Mutex
	Applied      []datapath.Config
	refuse       error
	hooks        []datapath.HookState
	Traffic      []datapath.DeviceTraffic
	Moved        []model.IfIndex // by Reposition
	Stuck        bool            // Reposition does not help
	counters     []datapath.Counters
	offsets      []time.Duration
	Followed     int            // how often the numbers of proofs followed the clock
	pathMTUs     map[string]int // by encapsulation
	reported     map[string][]uint64
	closed       int
	removed      int
	Records      chan datapath.Record
	Waiting      []datapath.Record // not read yet
	Broken       chan error
	Flows        atomic.Int64                        // of each interval
	Edges        atomic.Pointer[[]datapath.EdgeFlow] // of the next interval alone
	Delayed      atomic.Pointer[[]datapath.Delays]   // nil: not counted
	EdgesLeft    atomic.Pointer[edgetoedge.Totals]   // the same
	LostPackets  atomic.Uint64                       // of each measured flow's FlowPackets
	CountedSince atomic.Uint64                       // the first block that measured flows were counted in as a whole
}

// NewDatapath is a data plane without a configuration.
func NewDatapath() *Datapath {
	return &Datapath{
		Records:  make(chan datapath.Record),
		Broken:   make(chan error, 1),
		pathMTUs: make(map[string]int),
		reported: make(map[string][]uint64),
	}
}

func (d *Datapath) Apply(c datapath.Config) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	d.Applied = append(d.Applied, c)
	clear(d.pathMTUs)
	for _, e := range c.Node.Encapsulations {
		d.pathMTUs[e.Name] = e.PathMTU
	}
	return nil
}

func (d *Datapath) Intact() bool { return true }

func (d *Datapath) Running() datapath.Config {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if len(d.Applied) == 0 {
		return datapath.Config{}
	}
	return d.Applied[len(d.Applied)-1]
}

func (d *Datapath) Applications() int {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return len(d.Applied)
}

func (d *Datapath) SetRefusal(err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.refuse = err
}

func (d *Datapath) Interfaces() []datapath.InterfaceStatus {
	var out []datapath.InterfaceStatus
	for _, i := range d.Running().Node.Interfaces {
		out = append(out, datapath.InterfaceStatus{Index: i.Index, Name: i.Name, Ingress: datapath.AttachTCX, Egress: datapath.AttachTCX})
	}
	return out
}

func (d *Datapath) Counters() ([]datapath.Counters, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return slices.Clone(d.counters), nil
}

func (d *Datapath) SetCounters(c ...datapath.Counters) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.counters = c
}

// FlowPackets is how many packets each of the fake's flows has.
const FlowPackets = 3

func (d *Datapath) CollectFlows(each func(datapath.Flow)) error {
	for range d.Flows.Load() {
		each(datapath.Flow{Role: model.RoleTransit, Namespace: 123, Packets: FlowPackets})
	}
	return nil
}

func (d *Datapath) CollectEdges(each func(datapath.EdgeFlow)) (left edgetoedge.Totals, err error) {
	if t := d.EdgesLeft.Swap(nil); t != nil {
		left = *t
	}
	if list := d.Edges.Swap(nil); list != nil {
		for _, f := range *list {
			each(f)
		}
	}
	return left, nil
}

func (d *Datapath) Delays() (list []datapath.Delays, counts bool, err error) {
	if all := d.Delayed.Load(); all != nil {
		return *all, true, nil
	}
	return nil, false, nil
}

func (d *Datapath) Blocks(block uint64, visit func(datapath.BlockCounts)) {
	how := d.Running().Node.Measurement.WithDefaults()
	length, selections := how.Block, how.Selections()
	for i, f := range how.Flows {
		c := datapath.BlockCounts{
			Flow:      f.Name,
			Block:     block,
			Packets:   FlowPackets - d.LostPackets.Load(),
			Complete:  block >= d.CountedSince.Load(),
			Selection: selections[i],
		}
		c.Uncovered = d.coverage.Within(f.Name, coverage.Both, int64(block)*int64(length), int64(block+1)*int64(length))
		c.Complete = c.Complete && c.Uncovered == 0
		for _, reported := range d.ReportedBlocks(f.Name) {
			c.Reported = c.Reported || reported >= block
			c.LastReported = max(c.LastReported, reported)
		}
		visit(c)
	}
}

func (d *Datapath) NewTaps() *datapath.Taps { return new(datapath.Datapath).NewTaps() }

func (d *Datapath) Coverage() *coverage.Log { return &d.coverage }

func (d *Datapath) BlockReported(flow string, block uint64) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.reported[flow] = append(d.reported[flow], block)
}

func (d *Datapath) ReportedBlocks(flow string) []uint64 {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return slices.Clone(d.reported[flow])
}

func (d *Datapath) ReadSamples(ctx context.Context, to datapath.Samples) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.Broken:
			return err
		case r := <-d.Records:
			to.Record(r)
		}
	}
}

func (d *Datapath) ReadWaiting(to datapath.Samples) error {
	if d.Wanted.Load() {
		return errors.New("more are written meanwhile")
	}
	for _, r := range d.Waiting {
		to.Record(r)
	}
	return nil
}

func (d *Datapath) ReadThrough() bool { return true }

func (d *Datapath) SetRecordsWanted(n int) error {
	if n == 0 {
		d.Pauses.Add(1)
	}
	d.Asked.Store(int64(n))
	d.Asks.Add(1)
	d.Wanted.Store(n > 0)
	return nil
}

func (d *Datapath) SetTAIOffset(o time.Duration) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.offsets = append(d.offsets, o)
	return nil
}

func (d *Datapath) FollowClock() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Followed++
	return nil
}

func (d *Datapath) Forwarding() (*datapath.Forwarding, error) { return &datapath.Forwarding{}, nil }

func (d *Datapath) SetPathMTU(encapsulation string, mtu int) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.pathMTUs[encapsulation] = mtu
	return nil
}

func (d *Datapath) Decapsulations() ([]netip.Addr, error) {
	var ends []netip.Addr
	for _, c := range d.Running().Node.Decapsulations {
		ends = append(ends, c.TunnelDestination)
	}
	return ends, nil
}

// PathMTU is what was last set for an encapsulation, or applied with it.
func (d *Datapath) PathMTU(encapsulation string) int {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.pathMTUs[encapsulation]
}

func (d *Datapath) LastOffset() time.Duration {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.offsets[len(d.offsets)-1]
}

func (d *Datapath) Close() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.closed++
	return nil
}

func (d *Datapath) Remove() error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.removed++
	return nil
}

func (d *Datapath) AwaitLeft() {}

func (d *Datapath) Ended() (closed, removed int) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.closed, d.removed
}

func (d *Datapath) Hooks(look func(model.IfIndex, datapath.AttachMode) bool) []datapath.HookState {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.hooks), func(s datapath.HookState) bool { return !look(s.Index, s.Mode) })
}

func (d *Datapath) Devices() ([]datapath.DeviceTraffic, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return slices.Clone(d.Traffic), nil
}

func (d *Datapath) Reposition(index model.IfIndex, ingress bool) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Moved = append(d.Moved, index)
	for i := range d.hooks {
		if d.hooks[i].Index == index && d.hooks[i].Ingress == ingress && !d.Stuck {
			d.hooks[i].InPlace, d.hooks[i].Before = true, nil
		}
	}
	return nil
}

// SetHook changes what looks at a hook find.
func (d *Datapath) SetHook(s datapath.HookState) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.hooks = slices.DeleteFunc(d.hooks, func(h datapath.HookState) bool { return h.Index == s.Index && h.Ingress == s.Ingress })
	d.hooks = append(d.hooks, s)
}
