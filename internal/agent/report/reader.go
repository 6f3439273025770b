// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Reader makes records of what the data plane writes into its rings.
type Reader struct {
	service.Idle
	d       Dependencies
	records *Records
	copies  *Loopbacks
	shared  *SharedIDs
	view    atomic.Pointer[recorderView]

	flowsUnsure atomic.Uint64 // flows whose number of missing packets is not known
}

// NewReader makes a reader, which shows the traces that it reads to shared, and hands copies the
// packets that are to be returned.
func NewReader(d Dependencies, records *Records, copies *Loopbacks, shared *SharedIDs) *Reader {
	return &Reader{d: d, records: records, copies: copies, shared: shared}
}

func (r *Reader) Run(ctx context.Context) error { return r.d.Datapath.ReadSamples(ctx, r.samples()) }

// Close reads the rings to their end when they will be removed.
func (r *Reader) Close(removing bool) {
	if !r.records.end(removing) {
		return
	}
	if err := r.d.Datapath.ReadWaiting(r.samples()); err != nil {
		r.d.Log.Warn("the last records could not be read", "error", err)
	}
}

// samples are the handlers of what the data plane writes. Several goroutines call them
// at once.
func (r *Reader) samples() datapath.Samples {
	return datapath.Samples{Record: r.traces, Postcards: r.postcards, Flow: r.flow, Loopback: r.copies.enqueue}
}

// traces reads an extension header that the data plane passed on, and offers a record for each trace option in the header.
func (r *Reader) traces(raw datapath.Record) {
	x := r.records
	x.read.Add(1)
	packet, ok := record.ParsePacket(raw.Packet, raw.Length)
	header, err := ioam.DecodeExtensionHeader(raw.Header)
	if !ok || err != nil {
		x.malformed.Add(1)
		return
	}
	s := r.d.State.Load()
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
		out.Node, out.Interface, out.IfIndex = r.d.NodeName(), interfaceName(s, raw.Interface), raw.Interface
		out.Name(s.Names)
		if out.Copy = raw.Outcome == model.OutcomeLoopbackReceived; !out.Copy {
			out.MeasurePathDelay(raw.Time)
			r.shared.checkTrace(&out)
		}
		x.Offer(&out)
	}
}

func (r *Reader) postcards(cards []datapath.Postcard) {
	r.records.read.Add(uint64(len(cards)))
	r.recorder().Postcards(cards, r.records.clock.ofRecords(), r.records.Offer)
}

func (r *Reader) flow(f datapath.Flow) {
	r.records.read.Add(1)
	f.SkippedUnknown = f.SkippedUnknown || f.Skipped > 0 && mayHaveMissed(r.d.Datapath.Coverage(), exportInterval(r.d.State.Load()))
	if f.SkippedUnknown {
		r.flowsUnsure.Add(1)
	}
	r.records.Offer(r.recorder().Flow(f))
}

// recorderView is the recorder for one state and TAI offset.
type recorderView struct {
	state    *service.State
	offset   int64
	recorder *Recorder
}

// recorder makes a new recorder when the state or the TAI offset has changed. Two
// goroutines may make one at once; both are equal.
func (r *Reader) recorder() *Recorder {
	s, offset := r.d.State.Load(), r.records.clock.offset.Load()
	if v := r.view.Load(); v != nil && v.state == s && v.offset == offset {
		return v.recorder
	}
	x, err := NewRecorder(r.d.NodeName(), s.Resolved.Node, offset)
	if err != nil { // it runs, so it is valid
		x, _ = NewRecorder(r.d.NodeName(), model.NodeConfig{}, offset)
	}
	r.view.Store(&recorderView{state: s, offset: offset, recorder: x})
	return x
}

func interfaceName(s *service.State, index model.IfIndex) string {
	for _, i := range s.Resolved.Node.Interfaces {
		if i.Index == index {
			return i.Name
		}
	}
	return ""
}
