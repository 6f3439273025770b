// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/instant"
)

// Severity is how serious an event is.
type Severity string

// Severities, as warnings have them.
const (
	SeverityInfo    Severity = "info"
	SeverityWarning Severity = "warning"
	SeverityError   Severity = "error"
)

// Event is something that happened in the network at a time, as a node found it: it began, it
// ended, or it changed. What still holds is a warning, not an event.
//
// Events are not in IPFIX: its elements describe packets and counts, and an event's values depend
// on its name. Sinks of JSON lines and observers get them.
type Event struct {
	Time     instant.Time
	Node     string // that found it
	Name     string // what happened, such as probe_loss
	ID       string // an event that begins something, and the one that ends it, have the same
	Severity Severity
	Subject  string // what it happened to, such as a destination; with Name, it tells events about one thing
	Facts    string
	Since    instant.Time // when it began, as far as is known; zero: at Time
	Labels   []Label
	Values   []Value
}

// Label is a named text of an event.
type Label struct{ Name, Text string }

// Value is a named number of an event. The name ends in its unit: _ns, _packets, _ratio.
type Value struct {
	Name   string
	Number float64
}

// Kind is "event".
func (e *Event) Kind() string { return KindEvent }

// Label is the text of a label, "" if the event does not have it.
func (e *Event) Label(name string) string {
	for _, each := range e.Labels {
		if each.Name == name {
			return each.Text
		}
	}
	return ""
}

// events declares the fields of an Event.
var events = table[*Event]{
	field("time", "", "When the node found this, by its clock.", func(e *Event) *instant.Time { return &e.Time }, moment()),
	field("node", "", "Name of the node that found it.", func(e *Event) *string { return &e.Node }, present(textual())),
	field("event", "", "What happened: a name of the [list of events](events.md).", func(e *Event) *string { return &e.Name }, textual()),
	field(
		"id",
		"",
		"Tells events apart. An event that ends what another one began has its id.",
		func(e *Event) *string { return &e.ID },
		present(textual()),
	),
	field("severity", "", "`info`, `warning` or `error`.", func(e *Event) *Severity { return &e.Severity }, severity()),
	field(
		"subject",
		"",
		"What it happened to, such as the name of a destination. Events with the same subject are about the same thing.",
		func(e *Event) *string { return &e.Subject },
		present(textual()),
	),
	field("text", "", "What happened, in words that may change.", func(e *Event) *string { return &e.Facts }, textual()),
	field(
		"since",
		"",
		"Since when it is so, as far as is known; absent if it is since `time`.",
		func(e *Event) *instant.Time { return &e.Since },
		moment(),
	),
	field(
		"labels",
		"",
		"Names and places, as an object of texts whose keys depend on the event. Absent when there are none.",
		func(e *Event) *[]Label { return &e.Labels },
		texts(),
	),
	field(
		"values",
		"",
		"Numbers, as an object whose keys depend on the event and end in the unit: `_ns`, `_packets`, `_ratio`. Absent when there are none.",
		func(e *Event) *[]Value { return &e.Values },
		numbers(),
	),
}

// severity is a word.
func severity() codec[*Severity] {
	return codec[*Severity]{coding: coding{
		form: "text",
		show: func(v Visitor, c *Column, p any) { v.Text(c, string(*p.(*Severity))) },
		fill: func(p any, from Input) error {
			text, err := from.Text()
			*p.(*Severity) = Severity(text)
			return err
		},
	}}
}

// texts are an object with a text for each name.
func texts() codec[*[]Label] {
	return members("object of texts", func(v Visitor, l *Label) { v.Text(newColumn(l.Name), l.Text) },
		func(name string, from Input) (Label, error) {
			text, err := from.Text()
			return Label{name, text}, err
		}, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
}

// numbers are an object with a number for each name.
func numbers() codec[*[]Value] {
	return members("object of numbers", func(v Visitor, one *Value) { v.Float(newColumn(one.Name), one.Number) },
		func(name string, from Input) (Value, error) {
			n, err := from.Float()
			return Value{name, n}, err
		}, func(a, b Value) int { return cmp.Compare(a.Name, b.Name) })
}

// members is an object with a member for each item of a list, absent when there is none.
func members[V any](form string, show func(Visitor, *V), read func(string, Input) (V, error), order func(a, b V) int) codec[*[]V] {
	return filled(codec[*[]V]{coding: coding{
		form: form,
		show: func(v Visitor, c *Column, p any) {
			v.BeginObject(c)
			for _, each := range slices.SortedFunc(slices.Values(*p.(*[]V)), order) {
				show(v, &each)
			}
			v.EndObject()
		},
		fill: func(p any, from Input) error {
			fields, err := from.Object()
			if err != nil {
				return err
			}
			var list []V
			for name, member := range fields {
				one, err := read(name, member)
				if err != nil {
					return err
				}
				list = append(list, one)
			}
			slices.SortFunc(list, order)
			*p.(*[]V) = list
			return nil
		},
	}})
}

// Text is the event as a line of readable text.
func (e *Event) Text() string {
	var b strings.Builder
	if !e.Time.IsZero() {
		b.WriteString(e.Time.String() + "  ")
	}
	if e.Node != "" {
		b.WriteString(Printable(e.Node) + " ")
	}
	fmt.Fprintf(&b, "%s %s: %s", Printable(string(e.Severity)), Printable(e.Name), printableText(e.Facts))
	if !e.Since.IsZero() {
		b.WriteString("; since " + e.Since.String())
	}
	return b.String() + "\n"
}

// printableText replaces what could control a terminal, and keeps the whole length.
func printableText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, text)
}
