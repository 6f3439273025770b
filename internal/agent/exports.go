// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
)

// Exports turns what programs export into records.
type Exports struct {
	name  string // of the node
	node  *reference.Node
	names map[model.IfIndex]string
}

// NewExports is for the exports of a node with that name and configuration, while
// TAI − UTC is the offset, in ns.
func NewExports(name string, config model.NodeConfig, taiOffset int64) (*Exports, error) {
	node, err := reference.NewNode(config)
	if err != nil {
		return nil, err
	}
	node.TAIOffset = taiOffset
	x := &Exports{name: name, node: node, names: make(map[model.IfIndex]string)}
	for _, i := range config.Interfaces {
		x.names[i.Index] = i.Name
	}
	return x, nil
}

// exportView is what exports are told with, of one state and offset of TAI.
type exportView struct {
	state   *state
	offset  int64
	exports *Exports
}

// exports makes the view anew when what it is of has changed. Two may be made
// at once, which are equal.
func (a *Agent) exports() *Exports {
	s, offset := a.state.Load(), a.taiOffset.Load()
	if v := a.view.Load(); v != nil && v.state == s && v.offset == offset {
		return v.exports
	}
	x, err := NewExports(a.options.NodeName, s.resolved.Node, offset)
	if err != nil { // it runs, so it is valid
		x, _ = NewExports(a.options.NodeName, model.NodeConfig{}, offset)
	}
	a.view.Store(&exportView{state: s, offset: offset, exports: x})
	return x
}

// samples takes what the data plane writes. Several goroutines call it at once.
func (a *Agent) samples() datapath.Samples {
	return datapath.Samples{Record: a.record, Postcard: a.postcard, Flow: a.flow}
}

func (a *Agent) postcard(c datapath.Postcard) {
	a.records.read.Add(1)
	p := a.exports().Postcard(c)
	p.Clock = a.clock()
	a.offer(p)
}

func (a *Agent) flow(f datapath.Flow) {
	a.records.read.Add(1)
	if f.SkippedUnknown {
		a.flows.unknown.Add(1)
	}
	a.offer(a.exports().Flow(f))
}

// Postcard is the record of a postcard, without what Raw says.
func (x *Exports) Postcard(c datapath.Postcard) *record.Postcard {
	return &record.Postcard{
		Time:           instant.Of(c.Time),
		Node:           x.name,
		Role:           record.NodeRole(c.Role),
		Ingress:        x.names[c.Ingress],
		Egress:         x.names[c.Egress],
		IngressIfIndex: c.Ingress,
		EgressIfIndex:  c.Egress,
		Option:         ioam.IOAMDirectExport.String(),
		Namespace:      c.Option.Namespace,
		TraceType:      c.Option.Type,
		Flags:          record.Hex8(c.Option.Flags),
		ExtensionFlags: record.Hex8(c.Option.ExtensionFlags),
		FlowID:         present(c.Option.FlowID, c.Option.HasFlowID()),
		Sequence:       present(c.Option.Sequence, c.Option.HasSequence()),
		Packet:         exportedPacket(c.Flow, c.Length),
		Raw:            x.node.ExportData(c.Export),
	}
}

// Flow is the record of a flow, as of now.
func (x *Exports) Flow(f datapath.Flow) *record.Flow {
	out := &record.Flow{
		Time:           instant.Of(time.Now()),
		Node:           x.name,
		Role:           record.NodeRole(f.Role),
		Ingress:        x.names[f.Ingress],
		Egress:         x.names[f.Egress],
		IngressIfIndex: f.Ingress,
		EgressIfIndex:  f.Egress,
		Namespace:      f.Namespace,
		TraceType:      f.Type,
		FlowID:         present(f.FlowID, f.ExtensionFlags&ioam.ExtensionFlowID != 0),
		Packet:         exportedPacket(f.Flow, 0),
		Packets:        f.Packets,
		Bytes:          f.Bytes,
		First:          instant.Of(f.First),
		Last:           instant.Of(f.Last),
		HopLimit:       record.HopLimits{Min: f.HopLimitMin, Max: f.HopLimitMax},
		EndReason:      endReasons[f.End],
	}
	if f.ExtensionFlags&ioam.ExtensionSequence != 0 {
		out.SequenceGaps = record.Field[uint64]{Value: uint64(f.Skipped), Present: true, Valid: !f.SkippedUnknown}
		out.Reordered = record.NewField(uint64(f.Late), true)
	}
	if f.DelayCount > 0 {
		out.TransitDelay = &record.Delays{
			Min: uint32(f.DelayMin), Max: uint32(f.DelayMax), Sum: uint64(f.DelaySum), Count: uint64(f.DelayCount),
		}
	}
	return out
}

var endReasons = map[datapath.FlowEnd]record.EndReason{
	datapath.FlowInterval: record.EndInterval,
	datapath.FlowEnded:    record.EndOfFlow,
	datapath.FlowEvicted:  record.EndEvicted,
}

// present is a field that the option has, or has not.
func present(v uint32, has bool) record.Field[uint32] {
	return record.Field[uint32]{Value: v, Present: has, Valid: has}
}

func exportedPacket(f model.Flow, length int) record.Packet {
	p := record.Packet{
		Source:      f.Source,
		Destination: f.Destination,
		NextHeader:  f.NextHeader,
		FlowLabel:   f.FlowLabel,
		Length:      length,
	}
	if f.SourcePort|f.DestinationPort != 0 {
		ports := [2]uint16{f.SourcePort, f.DestinationPort}
		p.SourcePort, p.DestinationPort = &ports[0], &ports[1]
	}
	return p
}

// followFlows exports flows at the end of each interval.
func (a *Agent) followFlows(ctx context.Context) {
	for took := time.Duration(0); sleep(ctx, max(a.flowInterval()-took, 0)); {
		began := time.Now()
		a.collectFlows()
		took = time.Since(began)
	}
}

func (a *Agent) flowInterval() time.Duration {
	return max(time.Duration(a.state.Load().config.Node.ExportInterval), time.Second)
}

// flowAllowance is how many flows may be exported when an interval ends.
type flowAllowance struct {
	collected  time.Time // when it last did
	suppressed atomic.Uint64
	more       atomic.Uint64 // packets of these, beyond one each
	unknown    atomic.Uint64 // flows whose number of missing packets is not known
}

// grant gives what a rate per second allows for the time since the last one
// (RFC 9326 §3.1.2), which is no longer than an interval.
func (f *flowAllowance) grant(now time.Time, rate uint32, interval time.Duration) uint64 {
	since := interval
	if !f.collected.IsZero() {
		since = min(max(now.Sub(f.collected), time.Second), interval)
	}
	f.collected = now
	return uint64(since.Seconds() * float64(cmp.Or(rate, model.DefaultExportRate)))
}

func (a *Agent) collectFlows() {
	left := a.flows.grant(time.Now(), a.state.Load().resolved.Node.ExportRate, a.flowInterval())
	err := a.datapath.CollectFlows(func(f datapath.Flow) {
		switch {
		case f.Paid: // when it was handed over
		case left == 0:
			a.flows.suppressed.Add(1)
			a.flows.more.Add(max(f.Packets, 1) - 1)
			return
		default:
			left--
		}
		a.flow(f)
	})
	if err != nil {
		a.log.Warn("flows could not be read", "error", err)
	}
}
