// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// mostUnmeasured is of how many flows events say at once that their loss is not known.
const mostUnmeasured = 256

// noteUnmeasured makes an event when the loss of a flow has not been known for as many blocks as its threshold says, and
// one when it is known again. Without an answer of the last node, all packets may be lost, or none: no event says
// that they are. The caller holds mu.
func (w *flowWatches) noteUnmeasured(f *watchedFlow, r *loss.Result) {
	switch is := f.watch.Beyond().NoData; {
	case is && f.unmeasured == nil && r.Whole.From.Reasons&loss.Restarted != 0: // this node has just begun: the next blocks say more
	case is && f.unmeasured == nil && w.unmeasured < mostUnmeasured:
		w.unmeasured++
		f.unmeasured = f.unmeasuredEvent(r, w.d.NodeName(), time.Now())
		w.events = append(w.events, f.unmeasured)
	case !is && f.unmeasured != nil:
		w.unmeasured--
		w.events = append(w.events, f.measuredEvent(r, time.Now()))
		f.unmeasured = nil
	}
}

// forgetUnmeasured ends the event of a flow that is not watched any more. The caller holds mu.
func (w *flowWatches) forgetUnmeasured(f *watchedFlow) {
	if f.unmeasured != nil {
		w.unmeasured--
		w.events = append(w.events, eventlog.NotSeen(f.unmeasured, time.Now(), w.d.NodeName()))
		f.unmeasured = nil
	}
}

// offerEvents passes on the events that were made. The caller does not hold mu.
func (w *flowWatches) offerEvents() {
	w.mu.Lock()
	list := w.events
	w.events = nil
	w.mu.Unlock()
	if len(list) > 0 {
		w.d.Records.Offer(list...)
	}
}

func (f *watchedFlow) unmeasuredEvent(r *loss.Result, node string, now time.Time) *record.Event {
	nodes, reasons := f.reasons(r)
	why := strings.Join(nodes, "; ")
	if f.unasked != nil {
		why = f.unasked.Error()
	}
	may := "it may lose all packets, or none"
	if sent := r.Whole.Packets.Sent; sent.Known {
		if may = "nothing was sent in the last block"; sent.Value > 0 {
			may = fmt.Sprintf("of %d packets of the last block, all may be lost, or none", sent.Value)
		}
	}
	stretch := f.watch.NoData()
	e := &record.Event{
		Time: instant.Of(now.UTC()), Node: node, Name: record.EventFlowUnmeasured, Subject: f.Name,
		Severity: record.EventKindOf(record.EventFlowUnmeasured).Severity, Since: instant.Of(time.Unix(0, stretch.First).UTC()),
		Facts:  fmt.Sprintf("the loss of flow %s is not known (%s): %s", f.Name, why, may),
		Labels: []record.Label{{Name: "flow", Text: f.Name}},
		Values: []record.Value{{Name: "blocks", Number: float64(stretch.Blocks)}},
	}
	if names := reasons.Names(); len(names) > 0 {
		e.Labels = append(e.Labels, record.Label{Name: "reasons", Text: strings.Join(names, ",")})
	}
	if len(nodes) > 0 {
		e.Labels = append(e.Labels, record.Label{Name: "nodes", Text: strings.Join(nodes, "; ")})
	}
	if sent := r.Whole.Packets.Sent; sent.Known {
		e.Values = append(e.Values, record.Value{Name: "sent_packets", Number: float64(sent.Value)})
	}
	return e
}

func (f *watchedFlow) measuredEvent(r *loss.Result, now time.Time) *record.Event {
	lasted := max(now.Sub(f.unmeasured.Time.Time), 0)
	e := &record.Event{
		Time: instant.Of(now.UTC()), Node: f.unmeasured.Node, Name: record.EventFlowMeasured, Subject: f.Name,
		Severity: record.EventKindOf(record.EventFlowMeasured).Severity, Since: f.unmeasured.Time,
		Facts:  fmt.Sprintf("the loss of flow %s is known again, after %v", f.Name, lasted.Round(time.Second)),
		Labels: []record.Label{{Name: "flow", Text: f.Name}},
		Values: []record.Value{{Name: "lasted_ns", Number: float64(lasted)}},
	}
	if r.Whole.Verdict == loss.Idle {
		e.Facts = fmt.Sprintf("flow %s has no packets any more, so none is lost, after %v", f.Name, lasted.Round(time.Second))
		e.Labels = append(e.Labels, record.Label{Name: "because", Text: loss.Idle.String()})
	}
	return e
}
