// SPDX-License-Identifier: Apache-2.0

package agent

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
	"github.com/waymark-net/waymark/internal/e2e"
	"github.com/waymark-net/waymark/internal/model"
)

// fakeDatapath records its calls, and can refuse them.
type fakeDatapath struct {
	coverage coverage.Log

	wanted    atomic.Bool // records
	mu        sync.Mutex
	applied   []datapath.Config
	refuse    error
	hooks     []datapath.HookState
	devices   []datapath.DeviceTraffic
	moved     []model.IfIndex // by Reposition
	stuck     bool            // Reposition does not help
	counters  []datapath.Counters
	offsets   []time.Duration
	followed  int            // how often the numbers of proofs followed the clock
	pathMTUs  map[string]int // by encapsulation
	reported  map[string][]uint64
	closed    int
	removed   int
	records   chan datapath.Record
	waiting   []datapath.Record // not read yet
	broken    chan error
	flows     atomic.Int64                        // of each interval
	edges     atomic.Pointer[[]datapath.EdgeFlow] // of the next interval alone
	edgesLeft atomic.Pointer[e2e.Totals]          // the same
	lost      atomic.Uint64                       // of each measured flow's flowPackets
	since     atomic.Uint64                       // the first block that measured flows were counted in as a whole
}

func newFakeDatapath() *fakeDatapath {
	return &fakeDatapath{records: make(chan datapath.Record), broken: make(chan error, 1), pathMTUs: make(map[string]int), reported: make(map[string][]uint64)}
}

func (d *fakeDatapath) Apply(c datapath.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	d.applied = append(d.applied, c)
	clear(d.pathMTUs)
	for _, e := range c.Node.Encapsulations {
		d.pathMTUs[e.Name] = e.PathMTU
	}
	return nil
}

func (d *fakeDatapath) Intact() bool { return true }

func (d *fakeDatapath) running() datapath.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.applied) == 0 {
		return datapath.Config{}
	}
	return d.applied[len(d.applied)-1]
}

func (d *fakeDatapath) applications() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.applied)
}

func (d *fakeDatapath) setRefusal(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

func (d *fakeDatapath) Interfaces() []datapath.InterfaceStatus {
	var out []datapath.InterfaceStatus
	for _, i := range d.running().Node.Interfaces {
		out = append(out, datapath.InterfaceStatus{Index: i.Index, Name: i.Name, Ingress: datapath.AttachTCX, Egress: datapath.AttachTCX})
	}
	return out
}

func (d *fakeDatapath) Counters() ([]datapath.Counters, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.counters), nil
}

func (d *fakeDatapath) setCounters(c ...datapath.Counters) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counters = c
}

// flowPackets is how many packets each of the fake's flows has.
const flowPackets = 3

func (d *fakeDatapath) CollectFlows(each func(datapath.Flow)) error {
	for range d.flows.Load() {
		each(datapath.Flow{Role: model.RoleTransit, Namespace: 123, Packets: flowPackets})
	}
	return nil
}

func (d *fakeDatapath) CollectEdges(each func(datapath.EdgeFlow)) (left e2e.Totals, err error) {
	if t := d.edgesLeft.Swap(nil); t != nil {
		left = *t
	}
	if list := d.edges.Swap(nil); list != nil {
		for _, f := range *list {
			each(f)
		}
	}
	return left, nil
}

func (d *fakeDatapath) Blocks(block uint64, visit func(datapath.BlockCounts)) {
	how := d.running().Node.Measurement.WithDefaults()
	length, selections := how.Block, how.Selections()
	for i, f := range how.Flows {
		c := datapath.BlockCounts{Flow: f.Name, Block: block, Packets: flowPackets - d.lost.Load(), Complete: block >= d.since.Load(), Selection: selections[i]}
		c.Uncovered = d.coverage.Within(f.Name, coverage.Both, int64(block)*int64(length), int64(block+1)*int64(length))
		c.Complete = c.Complete && c.Uncovered == 0
		for _, reported := range d.reportedBlocks(f.Name) {
			c.Reported = c.Reported || reported >= block
			c.LastReported = max(c.LastReported, reported)
		}
		visit(c)
	}
}

func (d *fakeDatapath) NewTaps() *datapath.Taps { return new(datapath.Datapath).NewTaps() }

func (d *fakeDatapath) Coverage() *coverage.Log { return &d.coverage }

func (d *fakeDatapath) BlockReported(flow string, block uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported[flow] = append(d.reported[flow], block)
}

func (d *fakeDatapath) reportedBlocks(flow string) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.reported[flow])
}

func (d *fakeDatapath) ReadSamples(ctx context.Context, to datapath.Samples) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.broken:
			return err
		case r := <-d.records:
			to.Record(r)
		}
	}
}

func (d *fakeDatapath) ReadWaiting(to datapath.Samples) error {
	if d.wanted.Load() {
		return errors.New("more are written meanwhile")
	}
	for _, r := range d.waiting {
		to.Record(r)
	}
	return nil
}

func (d *fakeDatapath) ReadThrough() bool { return true }

func (d *fakeDatapath) SetRecordsWanted(wanted bool) error {
	d.wanted.Store(wanted)
	return nil
}

func (d *fakeDatapath) SetTAIOffset(o time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offsets = append(d.offsets, o)
	return nil
}

func (d *fakeDatapath) FollowClock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed++
	return nil
}

func (d *fakeDatapath) Forwarding() (*datapath.Forwarding, error) { return &datapath.Forwarding{}, nil }

func (d *fakeDatapath) SetPathMTU(encapsulation string, mtu int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pathMTUs[encapsulation] = mtu
	return nil
}

func (d *fakeDatapath) Decapsulations() ([]netip.Addr, error) {
	var ends []netip.Addr
	for _, c := range d.running().Node.Decapsulations {
		ends = append(ends, c.TunnelDestination)
	}
	return ends, nil
}

// pathMTU is what was last set for an encapsulation, or applied with it.
func (d *fakeDatapath) pathMTU(encapsulation string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pathMTUs[encapsulation]
}

func (d *fakeDatapath) lastOffset() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offsets[len(d.offsets)-1]
}

func (d *fakeDatapath) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
	return nil
}

func (d *fakeDatapath) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed++
	return nil
}

func (d *fakeDatapath) AwaitLeft() {}

func (d *fakeDatapath) ended() (closed, removed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed, d.removed
}
