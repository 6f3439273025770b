// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Record is the finding as an event of a node. Name has named its places.
func (f *Finding) Record(node string) *record.Event {
	e := &record.Event{
		Time:     instant.Of(f.At.UTC()),
		Node:     node,
		Name:     f.Event,
		Subject:  f.Subject(),
		Severity: record.SeverityInfo,
		Facts:    f.facts(),
	}
	if k := record.EventKindOf(f.Event); k != nil {
		e.Severity = k.Severity
	}
	if !f.Since.Equal(f.At) && !f.Since.IsZero() {
		e.Since = instant.Of(f.Since.UTC())
	}
	f.label(e)
	f.value(e)
	return e
}

func (f *Finding) label(e *record.Event) {
	label := func(name, text string) {
		if text != "" {
			e.Labels = append(e.Labels, record.Label{Name: name, Text: text})
		}
	}
	of := cmp.Or(f.Ends, f.Event)
	switch {
	case slices.Contains([]string{record.EventQueueSlow, record.EventQueueUsual, record.EventQueueDrops, record.EventQueueDropsEnd}, of):
		label("interface", f.Place.Node)
	case f.Event == record.EventPathsMoved:
		label("from", wayText(f.From))
		label("to", wayText(f.To))
	case of == record.EventHeldLong || of == record.EventHeldUsual || of == record.EventNodeSilent || of == record.EventNodeHeard:
		label("node_name", f.Place.node())
		label("ingress", f.Place.link(true))
		label("egress", f.Place.link(false))
		label("from_node", f.Before.node())
		label("to_node", f.Next.node())
	default:
		label("from_node", f.Place.node())
		label("egress", f.Place.link(false))
		label("to_node", f.Next.node())
		label("ingress", f.Next.link(true))
	}
	label("source", f.Source)
	label("destination", f.Destination)
	label("flow", f.Flow)
	if to := f.FlowSegment.To; to > 0 {
		label("flow_id", strconv.FormatUint(uint64(f.FlowID), 10))
		label("from_point", strconv.Itoa(to-1))
		label("to_point", strconv.Itoa(to))
	}
	if of == record.EventLoss || of == record.EventLossEnded {
		evidence := "counters"
		if f.betweenEnds() {
			evidence = "sequence"
		}
		label("evidence", evidence)
	}
	if f.HeldIncluded {
		label("includes", "held")
	}
	if f.NewUsual {
		label("because", "baseline")
	}
	label("event", f.Ends)
}

func (f *Finding) value(e *record.Event) {
	value := func(name string, n float64) { e.Values = append(e.Values, record.Value{Name: name, Number: n}) }
	ends := f.Ends != "" || len(record.EventKindOf(f.Event).Ends) > 0
	switch {
	case f.Event == record.EventNotSeen:
	case f.P95 != 0 || f.Usual != 0:
		value("p95_ns", float64(f.P95))
		value("usual_p95_ns", float64(f.Usual))
		if f.Worst > 0 {
			value("worst_p95_ns", float64(f.Worst))
		}
	case f.Loss.Sent > 0:
		if ratio, _ := f.Loss.Ratio(); !ends {
			value("sent_packets", float64(f.Loss.Sent))
			value("lost_ratio", ratio)
		}
		value("lost_packets", float64(f.Loss.Lost))
	case f.Event == record.EventPathsMoved:
		value("moved_ratio", f.Moved)
		value("flows", float64(f.Flows))
		if f.P99Change != nil {
			value("p99_change_ns", float64(*f.P99Change))
		}
	}
	if f.Packets > 0 && !ends {
		value("packets", float64(f.Packets))
	}
	if ends {
		value("lasted_ns", float64(f.At.Sub(f.Since)))
	}
}

// node is the name of a place's node.
func (p *Place) node() string {
	if p.Node == "" && p.NodeID == 0 {
		return ""
	}
	one := Place{Node: p.Node, NodeID: p.NodeID}
	return one.String()
}

// link is the name of an interface, or its id.
func (p *Place) link(ingress bool) string {
	name, id := p.EgressName, p.EgressID
	if ingress {
		name, id = p.IngressName, p.IngressID
	}
	if name == "" && id != 0 {
		return fmt.Sprint(id)
	}
	return name
}

func wayText(list []Place) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].node()
	}
	return strings.Join(texts, " > ")
}

// facts are the event in words.
func (f *Finding) facts() string {
	lasted := after(f.At.Sub(f.Since))
	segment := f.place(&f.Place, f.FlowSegment.To-1)
	if f.FlowSegment.To > 0 || f.Next != (Place{}) {
		segment += " > " + f.place(&f.Next, f.FlowSegment.To)
	}
	traffic := f.Source + " > " + f.Destination
	usual := func() string {
		text := fmt.Sprintf("p95 %s as usual again, %s", delayText(f.P95), lasted)
		if f.NewUsual {
			text = fmt.Sprintf("p95 %s is what is usual now, %s", delayText(f.P95), lasted)
		}
		if f.Worst > 0 {
			text += ", " + delayText(f.Worst) + " at worst"
		}
		return text
	}
	switch f.Event {
	case record.EventSegmentSlow:
		text := fmt.Sprintf("%s takes long: p95 %s, usual %s (%s)", segment, delayText(f.P95), delayText(f.Usual), traffic)
		if f.HeldIncluded {
			text += ", with the time that a node held the packets"
		}
		return text
	case record.EventHeldLong:
		return fmt.Sprintf("%s holds packets: p95 %s, usual %s (%s)", f.Place.String(), delayText(f.P95), delayText(f.Usual), traffic)
	case record.EventQueueSlow:
		return fmt.Sprintf("packets wait in the queue of %s: p95 %s, usual %s", f.Place.Node, delayText(f.P95), delayText(f.Usual))
	case record.EventSegmentUsual:
		return segment + ": " + usual()
	case record.EventHeldUsual:
		return f.Place.String() + ": held " + usual()
	case record.EventQueueUsual:
		return "queue of " + f.Place.Node + ": " + usual()
	case record.EventLoss, record.EventLossEnded, record.EventQueueDrops, record.EventQueueDropsEnd:
		return f.lossFacts(segment, traffic, lasted)
	case record.EventPathsMoved:
		text := fmt.Sprintf("%s: %.0f%% from %s to %s", traffic, 100*f.Moved, wayText(f.From), wayText(f.To))
		if f.P99Change != nil {
			sign := "+"
			if *f.P99Change < 0 {
				sign = "-"
			}
			text += ", p99 " + sign + delayText(max(*f.P99Change, -*f.P99Change))
		}
		return text
	case record.EventNodeSilent:
		return fmt.Sprintf(
			"%s writes nothing into traces any more, although packets pass between %s and %s",
			f.Place.String(),
			f.Before.node(),
			f.Next.node(),
		)
	case record.EventNodeHeard:
		return fmt.Sprintf("%s writes into traces again, %s", f.Place.String(), lasted)
	case record.EventNotSeen:
		began := *f
		began.Event, began.Ends, began.At = f.Ends, "", f.Since
		if f.Ends == record.EventLoss || f.Ends == record.EventQueueDrops {
			began.Loss = f.began // what was lost since is not of the packets that were sent by then
		}
		return "not known any more, because too few packets come: " + began.facts()
	}
	return segment
}

// lossFacts are those of losses and drops.
func (f *Finding) lossFacts(segment, traffic, lasted string) string {
	where := "after " + segment
	switch {
	case f.Event == record.EventQueueDrops || f.Event == record.EventQueueDropsEnd:
		where = "in the queue of " + f.Place.Node
	case f.betweenEnds():
		where = "between the ends of " + traffic
	}
	if f.FlowSegment.To > 0 {
		where += " (flow " + f.flow() + ")"
	}
	if f.Event == record.EventLossEnded || f.Event == record.EventQueueDropsEnd {
		return fmt.Sprintf("no more losses %s: ended %s, with %d packets lost", where, lasted, f.Loss.Lost)
	}
	ratio, _ := f.Loss.Ratio()
	return fmt.Sprintf("packets are lost %s: %d of %d, %.3g%%", where, f.Loss.Lost, f.Loss.Sent, 100*ratio)
}

// betweenEnds reports whether only the ends are known between which packets are lost.
func (f *Finding) betweenEnds() bool { return f.FlowSegment.To == 0 && f.Place == (Place{}) }

// after is how long something lasted.
func after(d time.Duration) string {
	if d < time.Minute {
		return "after " + d.Round(100*time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return "after " + text
}

// delayText is a time of three digits.
func delayText(ns int64) string {
	unit := time.Duration(1)
	for d := time.Duration(ns); d/unit >= 1000; {
		unit *= 10
	}
	return time.Duration(ns).Round(unit).String()
}
