// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// observerRoom is how many records wait for an observer: at 100,000 a second,
// for 40 ms.
const observerRoom = 4096

// maxObservers bounds what watching may cost: each has a queue and a copy of
// every line.
const maxObservers = 64

// records counts what came out of the data plane.
type records struct {
	read      atomic.Uint64
	malformed atomic.Uint64
	asking    sync.Mutex
	ended     bool // under asking: nobody asks any more
}

// record turns one record of the data plane into one for each trace in it, and
// hands them on. Several goroutines call it at once.
func (a *Agent) record(r datapath.Record) {
	a.records.read.Add(1)
	packet, ok := record.ParsePacket(r.Packet, r.Length)
	header, err := ioam.DecodeExtensionHeader(r.Header)
	if !ok || err != nil {
		a.records.malformed.Add(1)
		return
	}
	s := a.state.Load()
	clock := a.clock()
	for option, err := range header.Options() {
		if err != nil {
			a.records.malformed.Add(1)
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
			a.records.malformed.Add(1)
			continue
		}
		out, err := record.NewTrace(r.Time, trace, packet, clock)
		if err != nil {
			a.records.malformed.Add(1) // the nodes that can be read are there
		}
		out.Node, out.Interface, out.IfIndex = a.options.NodeName, interfaceName(s, r.Interface), r.Interface
		out.MeasurePathDelay(r.Time)
		a.offer(&out)
	}
}

// offer hands a record, which does not change any more, to the observers and all
// sinks. Several goroutines call it at once.
func (a *Agent) offer(r record.Record) {
	a.stream.Publish(r)
	a.sinks.offer(r)
}

// sinkFacts are what collectors are told of the node.
func (a *Agent) sinkFacts() sink.Facts {
	f := sink.Facts{Node: a.options.NodeName}
	if lost, suppressed, err := a.losses(); err == nil {
		f.Lost, f.Suppressed, f.Ignored = lost, suppressed, lost+suppressed+a.flows.more.Load()
		f.FirstLoss, f.LastLoss = a.lossTimes.note(time.Now(), lost+suppressed)
	}
	if s := a.state.Load(); s != nil {
		for _, i := range s.resolved.Node.Interfaces {
			f.Interfaces = append(f.Interfaces, sink.Interface{Index: i.Index, Name: i.Name})
		}
	}
	return f
}

// clock says how this node writes times.
func (a *Agent) clock() record.Clock {
	return record.Clock{Format: a.state.Load().resolved.Node.TimestampFormat, TAIOffset: time.Duration(a.taiOffset.Load())}
}

// askForRecords tells the data plane and the kernel whether anybody wants
// records: an exporter or an observer. What nobody wants is not written.
func (a *Agent) askForRecords() {
	a.records.asking.Lock()
	defer a.records.asking.Unlock()
	if a.records.ended {
		return
	}
	wanted := a.stream.Observers() > 0 || a.sinks.any()
	if err := a.datapath.SetRecordsWanted(wanted); err != nil {
		a.log.Warn("the data plane does not know whether records are wanted", "error", err)
	}
	s := a.state.Load()
	a.kernelEvents.set(wanted && s != nil && s.config.Node.KernelEvents)
}

// endRecords leaves records in the rings for the next agent only if it has an
// exporter for them: observers come anew. Where the rings go, they are read.
func (a *Agent) endRecords(removing bool) {
	a.records.asking.Lock()
	defer a.records.asking.Unlock()
	a.records.ended = true
	if a.sinks.any() && !removing {
		return
	}
	if err := a.datapath.SetRecordsWanted(false); err != nil {
		a.log.Warn("records are written that nobody wants", "error", err)
	}
	if !removing {
		return
	}
	if err := a.datapath.ReadWaiting(a.samples()); err != nil {
		a.log.Warn("the last records could not be read", "error", err)
	}
}

func interfaceName(s *state, index model.IfIndex) string {
	for _, i := range s.resolved.Node.Interfaces {
		if i.Index == index {
			return i.Name
		}
	}
	return ""
}

// recently tells how much a counter grew in about the last minute.
type recently struct {
	mu      sync.Mutex
	samples []sample // at most recentSamples, oldest first
}

type sample struct {
	at    time.Time
	total uint64
}

const (
	recentPeriod  = time.Minute
	recentSamples = 12
)

// add notes the counter's value.
func (r *recently) add(at time.Time, total uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, sample{at, total})
	for len(r.samples) > recentSamples || len(r.samples) > 1 && at.Sub(r.samples[0].at) > recentPeriod {
		r.samples = r.samples[1:]
	}
}

// growth is how much it grew since the oldest value noted.
func (r *recently) growth(total uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == 0 || total < r.samples[0].total {
		return 0
	}
	return total - r.samples[0].total
}

// lossTimes is when losses were first and last noticed by this agent, which looks
// each few seconds: the data plane counts them, and keeps no time.
type lossTimes struct {
	mu          sync.Mutex
	total       uint64
	first, last time.Time
}

// note takes their number, and gives the times; both are zero while there are
// none.
func (l *lossTimes) note(now time.Time, total uint64) (first, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if total > l.total {
		if l.first.IsZero() {
			l.first = now
		}
		l.last = now
	}
	l.total = total
	return l.first, l.last
}
