// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// reader makes records of what the data plane writes into its rings.
type reader struct {
	idle
	*core
	records *records
	copies  *loopbacks
	shared  *sharedIDs
	view    atomic.Pointer[recorderView]

	flowsUnsure atomic.Uint64 // flows whose number of missing packets is not known
}

func (r *reader) run(ctx context.Context) error { return r.datapath.ReadSamples(ctx, r.samples()) }

// close reads the rings to their end when they will be removed.
func (r *reader) close(removing bool) {
	if !r.records.end(removing) {
		return
	}
	if err := r.datapath.ReadWaiting(r.samples()); err != nil {
		r.log.Warn("the last records could not be read", "error", err)
	}
}

// samples are the handlers of what the data plane writes. Several goroutines call them
// at once.
func (r *reader) samples() datapath.Samples {
	return datapath.Samples{Record: r.traces, Postcards: r.postcards, Flow: r.flow, Loopback: r.copies.take}
}

// traces turns one record of the data plane into one record for each trace in it.
func (r *reader) traces(raw datapath.Record) {
	x := r.records
	x.read.Add(1)
	packet, ok := record.ParsePacket(raw.Packet, raw.Length)
	header, err := ioam.DecodeExtensionHeader(raw.Header)
	if !ok || err != nil {
		x.malformed.Add(1)
		return
	}
	s := r.state.Load()
	clock := x.clock.ofRecords()
	for option, err := range header.Options() {
		if err != nil {
			x.malformed.Add(1)
			return
		}
		if !option.IsIOAM() {
			continue
		}
		carried, err := option.IOAM()
		if err != nil || !carried.Type.IsTrace() {
			continue
		}
		trace, err := carried.Trace()
		if err != nil {
			x.malformed.Add(1)
			continue
		}
		if raw.Outcome != model.OutcomeLoopbackReceived {
			r.recorder().Receive(&trace, raw)
		}
		out, err := record.NewTrace(raw.Time, trace, packet, clock)
		if err != nil {
			x.malformed.Add(1) // the readable nodes are kept
		}
		out.Node, out.Interface, out.IfIndex = r.options.NodeName, interfaceName(s, raw.Interface), raw.Interface
		if out.Copy = raw.Outcome == model.OutcomeLoopbackReceived; !out.Copy {
			out.MeasurePathDelay(raw.Time)
			r.shared.note(&out)
		}
		x.offer(&out)
	}
}

func (r *reader) postcards(cards []datapath.Postcard) {
	r.records.read.Add(uint64(len(cards)))
	r.recorder().Postcards(cards, r.records.clock.ofRecords(), r.records.offer)
}

func (r *reader) flow(f datapath.Flow) {
	r.records.read.Add(1)
	f.SkippedUnknown = f.SkippedUnknown || f.Skipped > 0 && r.unseen(r.interval())
	if f.SkippedUnknown {
		r.flowsUnsure.Add(1)
	}
	r.records.offer(r.recorder().Flow(f))
}

// recorderView is the recorder for one state and TAI offset.
type recorderView struct {
	state    *state
	offset   int64
	recorder *Recorder
}

// recorder makes a new recorder when the state or the TAI offset has changed. Two
// goroutines may make one at once; both are equal.
func (r *reader) recorder() *Recorder {
	s, offset := r.state.Load(), r.records.clock.offset.Load()
	if v := r.view.Load(); v != nil && v.state == s && v.offset == offset {
		return v.recorder
	}
	x, err := NewRecorder(r.options.NodeName, s.resolved.Node, offset)
	if err != nil { // it runs, so it is valid
		x, _ = NewRecorder(r.options.NodeName, model.NodeConfig{}, offset)
	}
	r.view.Store(&recorderView{state: s, offset: offset, recorder: x})
	return x
}

func interfaceName(s *state, index model.IfIndex) string {
	for _, i := range s.resolved.Node.Interfaces {
		if i.Index == index {
			return i.Name
		}
	}
	return ""
}
