// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/ioam"
)

// EdgeFlow is what was counted in an interval of a flow whose Edge-to-Edge options end
// at this node (RFC 9197 §4.6).
type EdgeFlow struct {
	edgetoedge.Key
	edgetoedge.Totals
	First, Last time.Time // of the interval's packets, UTC, to the precision of the kernel's tick; zero without packets
}

// KeyEdges gives the hash of both tables its keys, unless it has some.
func KeyEdges(clock *ebpf.Map) error {
	var c bpf.ABIE2eClock
	if err := clock.Lookup(uint32(0), &c); err != nil {
		return fmt.Errorf("read the keys of measured flows: %w", err)
	}
	if c.Keys[0] != 0 {
		return nil
	}
	for i := range c.Keys {
		c.Keys[i] = rand.Uint64() | 1
	}
	if err := clock.Put(uint32(0), c); err != nil {
		return fmt.Errorf("write the keys of measured flows: %w", err)
	}
	return nil
}

// CollectEdges ends the interval of the flows in a table, starts the next, and passes on what
// was counted in the one that ended.
func CollectEdges(table, clock *ebpf.Map, each func(EdgeFlow)) (left edgetoedge.Totals, err error) {
	var interval bpf.ABIE2eClock
	if err := clock.Lookup(uint32(0), &interval); err != nil {
		return left, fmt.Errorf("read the interval of measured flows: %w", err)
	}
	ended := interval.Epoch
	interval.Epoch++
	if err := clock.Put(uint32(0), interval); err != nil {
		return left, fmt.Errorf("begin an interval of measured flows: %w", err)
	}
	time.Sleep(Settling)
	return ReadEdges(table, ended, each)
}

// edgeBatch is how many sets are read at once.
const edgeBatch = 128

// ReadEdges passes on what an interval has counted, and adds up what it has of flows that have
// left. Each set is read under its lock.
func ReadEdges(table *ebpf.Map, epoch uint32, each func(EdgeFlow)) (left edgetoedge.Totals, err error) {
	keys, sets := make([]uint32, edgeBatch), make([]bpf.ABIE2eFlowSet, edgeBatch)
	now := newFlowTime()
	var cursor ebpf.MapBatchCursor
	for {
		n, err := table.BatchLookup(&cursor, keys, sets, &ebpf.BatchOptions{ElemFlags: uint64(ebpf.LookupLock)})
		for i := range sets[:n] {
			for j := range sets[i].Ways {
				if flow := &sets[i].Ways[j]; flow.Entry.Taken != 0 {
					each(decodeEdge(flow, epoch, now))
				}
			}
			addLeft(&left, &sets[i].Left[epoch&1], epoch)
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // these were the last
			return left, nil
		case err != nil:
			return left, fmt.Errorf("read the table of measured flows: %w", err)
		}
	}
}

func addLeft(sum *edgetoedge.Totals, l *bpf.ABIE2eLeft, epoch uint32) {
	if l.Epoch != epoch {
		return
	}
	sum.Packets += l.Packets
	sum.Expected += l.Expected
	sum.Unique += l.Unique
	sum.Duplicates += l.Duplicates
	sum.Reordered += l.Reordered
	sum.Late += l.Late
	sum.Restarts += l.Restarts
}

func decodeEdge(flow *bpf.ABIE2eFlow, epoch uint32, now flowTime) EdgeFlow {
	key := &flow.Entry.Key
	f := EdgeFlow{Key: edgetoedge.Key{
		Namespace: ioam.NamespaceID(key.Header >> 16), Type: ioam.EdgeToEdgeType(key.Header),
		Source: bpf.AddressOf(key.Source), Destination: bpf.AddressOf(key.Destination),
		FlowLabel: bpf.BigEndian32(key.FlowLabel), Tunnel: key.Tunnel,
	}}
	t := &flow.Totals[epoch&1]
	if t.Epoch != epoch || t.Packets == 0 {
		return f
	}
	f.First, f.Last = now.of(t.First), now.of(t.Last)
	f.Totals = edgetoedge.Totals{
		Packets: t.Packets, Expected: t.Expected, Unique: t.Unique, Duplicates: t.Duplicates, Reordered: t.Reordered,
		Late: t.Late, Restarts: t.Restarts, Delays: t.Delays,
		DelaySum: time.Duration(t.DelaySum), DelayMin: time.Duration(t.DelayMin), DelayMax: time.Duration(t.DelayMax),
	}
	return f
}
