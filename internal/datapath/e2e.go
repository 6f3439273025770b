// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/e2e"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// EdgeFlow is what was counted in an interval of a flow whose Edge-to-Edge options end
// at this node (RFC 9197 §4.6).
type EdgeFlow struct {
	e2e.Key
	e2e.Totals
	First, Last time.Time // of the interval's packets, UTC, to the precision of the kernel's tick; zero without packets
}

// hasEdgeToEdge reports whether some namespace is measured, and whether some
// encapsulation numbers packets.
func hasEdgeToEdge(cfg model.NodeConfig) (measures, inserts bool) {
	measures = slices.ContainsFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.EdgeToEdge })
	for _, e := range cfg.Encapsulations {
		inserts = inserts || e.DestinationLen() > 0
	}
	return measures, inserts
}

// appendDestinationHeader appends the Destination Options header with a rule's
// Edge-to-Edge options, if it has any, behind the Hop-by-Hop header.
func (c *abiEncapsulation) appendDestinationHeader(header []byte, e model.Encapsulation) []byte {
	if e.DestinationLen() == 0 {
		return header
	}
	start := len(header)
	c.FirstHeader = uint8(ioam.NextHeaderDestination)
	if start > 0 {
		header[0], c.FirstHeader = uint8(ioam.NextHeaderDestination), uint8(ioam.NextHeaderHopByHop)
	}
	c.LastHeader = uint8(start / 8)
	header = append(header, 0, 0, 1, 0)
	for i, o := range e.Options {
		if o.EdgeToEdge != nil {
			header = c.appendEdgeToEdge(header, *o.EdgeToEdge, &c.Patches[i])
			c.E2eOptions++
		}
	}
	c.Whole = uint8(len(header) / 4)
	return closeHeader(header, start)
}

// appendEdgeToEdge appends one option, and lists what differs per packet.
func (c *abiEncapsulation) appendEdgeToEdge(header []byte, o model.EdgeToEdgeOption, p *abiPatch) []byte {
	option := ioam.EdgeToEdge{Namespace: o.Namespace, Type: o.Type}
	header = append(header, uint8(ioam.OptionIOAMStatic), uint8(2+option.Len()), 0, uint8(ioam.IOAMEdgeToEdge))
	p.Kind, p.Proof = uint8(abiOptionKindKIND_E2E), uint16(len(header))
	next := len(header) + ioam.EdgeToEdgeLen
	if o.Type&(ioam.EdgeToEdgeSequence64|ioam.EdgeToEdgeSequence32) != 0 {
		p.Sequence = uint16(next)
		next += (o.Type & (ioam.EdgeToEdgeSequence64 | ioam.EdgeToEdgeSequence32)).Len()
	}
	if o.Type.Has(ioam.EdgeToEdgeTimestampSeconds) {
		p.Seconds, c.WantsE2eTime = uint16(next), 1
		next += 4
	}
	if o.Type.Has(ioam.EdgeToEdgeTimestampFraction) {
		p.Fraction, c.WantsE2eTime = uint16(next), 1
	}
	return option.Append(header)
}

// keyEdges gives the hash of both tables its keys, unless it has some.
func keyEdges(clock *ebpf.Map) error {
	var c abiE2eClock
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

// CollectEdges ends the interval of the flows that are measured from edge to edge, starts
// the next, and passes on what was counted in the one that ended: of each flow that the
// table holds, also of those without packets. It returns the sum of what was counted of flows
// that had given way to others by then. Without a table there are none.
func (d *Datapath) CollectEdges(each func(EdgeFlow)) (left e2e.Totals, err error) {
	d.applying.Lock() // keeps the table
	defer d.applying.Unlock()
	table := d.tables.maps[mapE2EFlows]
	if table == nil {
		return left, nil
	}
	return collectEdges(table, d.shared[mapE2EClock], each)
}

func collectEdges(table, clock *ebpf.Map, each func(EdgeFlow)) (left e2e.Totals, err error) {
	var interval abiE2eClock
	if err := clock.Lookup(uint32(0), &interval); err != nil {
		return left, fmt.Errorf("read the interval of measured flows: %w", err)
	}
	ended := interval.Epoch
	interval.Epoch++
	if err := clock.Put(uint32(0), interval); err != nil {
		return left, fmt.Errorf("begin an interval of measured flows: %w", err)
	}
	time.Sleep(flowSettling)
	return readEdges(table, ended, each)
}

// edgeBatch is how many sets are read at once.
const edgeBatch = 128

// readEdges passes on what an interval has counted, and adds up what it has of flows that have
// left. Each set is read under its lock.
func readEdges(table *ebpf.Map, epoch uint32, each func(EdgeFlow)) (left e2e.Totals, err error) {
	keys, sets := make([]uint32, edgeBatch), make([]abiE2eFlowSet, edgeBatch)
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

func addLeft(sum *e2e.Totals, l *abiE2eLeft, epoch uint32) {
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

func decodeEdge(flow *abiE2eFlow, epoch uint32, now flowTime) EdgeFlow {
	key := &flow.Entry.Key
	f := EdgeFlow{Key: e2e.Key{
		Namespace: ioam.NamespaceID(key.Header >> 16), Type: ioam.EdgeToEdgeType(key.Header),
		Source: addressOf(key.Source), Destination: addressOf(key.Destination), FlowLabel: be32(key.FlowLabel), Tunnel: key.Tunnel,
	}}
	t := &flow.Totals[epoch&1]
	if t.Epoch != epoch || t.Packets == 0 {
		return f
	}
	f.First, f.Last = now.of(t.First), now.of(t.Last)
	f.Totals = e2e.Totals{
		Packets: t.Packets, Expected: t.Expected, Unique: t.Unique, Duplicates: t.Duplicates, Reordered: t.Reordered,
		Late: t.Late, Restarts: t.Restarts, Delays: t.Delays,
		DelaySum: time.Duration(t.DelaySum), DelayMin: time.Duration(t.DelayMin), DelayMax: time.Duration(t.DelayMax),
	}
	return f
}
