// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/pathtrace/monitor"
	"github.com/waymark-net/waymark/internal/record"
)

// eventNames are the names of events by their kinds.
var eventNames = [...]string{
	monitor.Loss: record.EventProbeLoss, monitor.Recovered: record.EventProbeRecovered, monitor.PathChange: record.EventProbePathChange,
	monitor.Unanswered: record.EventProbeUnanswered, monitor.Abandoned: record.EventNotSeen,
}

// tell passes on what happened: as records, and as lines of the log.
func (p *Probes) tell(list []monitor.Event) {
	for i := range list {
		e := eventRecord(&list[i], p.d.NodeName())
		p.d.Records.Offer(e)
		p.writeLine(e)
	}
}

// vanishText is a sentence about flows that vanish.
func vanishText(destination string, flows, of int, one *monitor.Place) string {
	text := fmt.Sprintf("probes of %d of %d flows to %s are not answered", flows, of, destination)
	switch {
	case one.Refused:
		return text + ": the node is reached, but its agent does not answer"
	case one.Never && one.Error != "":
		return fmt.Sprintf("%s, and never were: %s says %q", text, one.After, one.Error)
	case one.Never && one.After != "" && one.AfterHop > 0:
		return fmt.Sprintf("%s, and never were: they were seen last at %s", text, one.After)
	case one.Never:
		return text + ", and never were"
	case one.Evidence == monitor.EvidenceError:
		return fmt.Sprintf("%s: %s says %q", text, one.After, one.Error)
	case one.Evidence == monitor.EvidenceHopLimit || one.Evidence == monitor.EvidenceCopy:
		return fmt.Sprintf("%s: they, or what answers them, vanish after %s, before %s", text, one.After, one.Before)
	}
	return text + ", and no node on the way shows where they vanish"
}

// eventRecord is the record of an event.
func eventRecord(e *monitor.Event, node string) *record.Event {
	r := &record.Event{
		Time: instant.Of(e.At), Node: node, Name: eventNames[e.Kind],
		Subject: e.Destination.Name, Severity: record.SeverityInfo,
	}
	if e.Kind != monitor.PathChange { // a loss and its end are about the same time
		sum := fnv.New64a()
		fmt.Fprintf(sum, "%q %q %d", node, e.Destination.Name, e.Since.UnixNano())
		r.ID = fmt.Sprintf("%012x", sum.Sum64()>>16)
	}
	if !e.Since.Equal(e.At) {
		r.Since = instant.Of(e.Since)
	}
	label := func(name, text string) {
		if text != "" {
			r.Labels = append(r.Labels, record.Label{Name: name, Text: text})
		}
	}
	value := func(name string, n float64) { r.Values = append(r.Values, record.Value{Name: name, Number: n}) }
	label("destination", e.Destination.Name)
	label("address", e.Destination.Address.String())
	value("flows_of", float64(e.FlowsOf))
	value("flows", float64(e.Flows))
	place := &monitor.Place{
		After: e.After, Before: e.Before, AfterHop: e.AfterHop, Evidence: e.Evidence,
		Error: e.Error, Refused: e.Refused, Never: e.Kind == monitor.Unanswered,
	}
	switch e.Kind {
	case monitor.Loss:
		r.Severity = record.SeverityError
		label("path", e.Path)
		label("after", e.After)
		label("before", e.Before)
		label("evidence", string(e.Evidence))
		label("error", e.Error)
		value("unanswered_packets", float64(e.Unanswered))
		if e.After != "" {
			value("after_hop", float64(e.AfterHop))
		}
		r.Facts = vanishText(e.Destination.Name, e.Flows, e.FlowsOf, place)
	case monitor.Unanswered:
		r.Severity = record.SeverityWarning
		if e.AfterHop > 0 {
			label("last", e.After)
		}
		label("error", e.Error)
		value("unanswered_packets", float64(e.Unanswered))
		r.Facts = vanishText(e.Destination.Name, e.Flows, e.FlowsOf, place)
	case monitor.Recovered:
		label("path", e.Path)
		value("unanswered_packets", float64(e.Unanswered))
		value("lasted_ns", float64(e.Lasted))
		r.Facts = fmt.Sprintf(
			"probes of %d of %d flows to %s are answered again, after %v",
			e.Flows,
			e.FlowsOf,
			e.Destination.Name,
			e.Lasted.Round(time.Millisecond),
		)
	case monitor.Abandoned:
		began := record.EventProbeLoss
		if e.Never {
			began = record.EventProbeUnanswered
		}
		label("event", began)
		label("path", e.Path)
		label("after", e.After)
		label("before", e.Before)
		value("lasted_ns", float64(e.Lasted))
		r.Facts = fmt.Sprintf("whether probes to %s are answered is not known any more, because these are not sent any more", e.Destination.Name)
	case monitor.PathChange:
		label("from", e.From)
		label("to", e.Path)
		r.Facts = fmt.Sprintf("%d of %d flows to %s moved from the path %s to %s", e.Flows, e.FlowsOf, e.Destination.Name, e.Named[0], e.Named[1])
	}
	return r
}

// writeLine writes a line of the log, or counts one that is too many. It is called by one goroutine.
func (p *Probes) writeLine(e *record.Event) {
	write, leftOut := p.lines.Next(time.Now())
	if leftOut > 0 {
		p.d.Log.Warn("more events than lines in the log", "events", leftOut)
	}
	if !write {
		return
	}
	log := p.d.Log.Info
	if e.Severity != record.SeverityInfo {
		log = p.d.Log.Warn
	}
	log(e.Facts, "event", e.Name, "destination", e.Subject)
}
