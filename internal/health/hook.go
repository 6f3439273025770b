// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hook is whether the program on one hook of an interface is executed.
type Hook struct {
	Interface string
	Direction string // ingress or egress
	Boundary  string // of an edge that filters here: drop or strip; else ""
	Place     string // that it should have among the programs of others
	Mode      string // xdp, tcx or clsact

	OffSince, OffUntil   time.Time // when it was not on the hook; OffUntil is zero while it lasts, both without such a time
	AwaySince, AwayUntil time.Time // when it was not in its place; likewise
	Repairs              int       // lately
	Fault                string    // why it could not be repaired
	Next                 time.Time // when it is tried again; zero: at the next look
	Before               []string  // programs of others that run earlier
	XDP                  []string  // the same, in XDP: they hide packets whatever the place

	Changed, ChangedUntil time.Time // between these, other programs changed the chain, and ours kept its place; zero: not lately

	Unseen      uint64    // packets that the device counted while the hook saw none
	UnseenSince time.Time // zero: it sees packets
}

func (h Hook) hook() string { return h.Interface + " " + h.Direction }

// warning has the severity of an edge that is open, where there is one.
func (h Hook) warning(code Code, text, cure string) Warning {
	w := New(code, h.Interface, text, cure)
	if h.Boundary != "" {
		w.Severity = Error
	}
	return w
}

// consequence says what packets do that the program does not see, or did not see until it was executed again.
func (h Hook) consequence(until time.Time) string {
	switch {
	case h.Boundary != "" && !until.IsZero():
		return fmt.Sprintf("until then the edge of the domain was open: boundary: %s did not apply to packets that it did not see", h.Boundary)
	case h.Boundary != "":
		return fmt.Sprintf("the edge of the domain is open: boundary: %s does not apply to packets that it does not see", h.Boundary)
	}
	return "packets that it did not see have no trace of this node, and are not counted"
}

// CheckHook warns if a program was or is not executed.
func CheckHook(h Hook) []Warning {
	var ws []Warning
	if !h.OffSince.IsZero() {
		ws = append(ws, h.takenOff())
	}
	switch {
	case !h.AwaySince.IsZero():
		ws = append(ws, h.displaced())
	case len(h.Before)+len(h.XDP) > 0:
		ws = append(ws, h.preceded())
	}
	if !h.Changed.IsZero() {
		ws = append(ws, h.changed())
	}
	if !h.UnseenSince.IsZero() {
		ws = append(ws, h.bypassed())
	}
	return ws
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// nextClock is a time in the future, in whole seconds: not before it.
func nextClock(t time.Time) string { return clock(t.Add(time.Second - 1)) }

func (h Hook) takenOff() Warning {
	text := fmt.Sprintf("something took Waymark's program off %s after %s; ", h.hook(), clock(h.OffSince))
	switch {
	case !h.OffUntil.IsZero(): // behind another program in XDP, in another mode
		text += fmt.Sprintf("it is back in %s since %s", h.Mode, clock(h.OffUntil))
	case h.Fault != "" && h.Next.IsZero():
		text += fmt.Sprintf("it cannot be put back in %s: %s; it is tried again", h.Mode, h.Fault)
	case h.Fault != "":
		text += fmt.Sprintf("it cannot be put back in %s: %s; the next attempt is at %s", h.Mode, h.Fault, nextClock(h.Next))
	case h.Next.IsZero():
		text += "it is being put back"
	default:
		text += "it is being put back, at the latest at " + nextClock(h.Next)
	}
	if h.Repairs > 1 {
		text += fmt.Sprintf("; it was put back or moved %d times lately", h.Repairs)
	}
	return h.warning(HookDetached, text+"; "+h.consequence(h.OffUntil),
		fmt.Sprintf("find what does it ('tc qdisc del', 'bpftool link detach', another agent), and exclude %s there", h.Interface))
}

func (h Hook) displaced() Warning {
	text := fmt.Sprintf("Waymark's program on %s was not in its place (%s) after %s", h.hook(), h.Place, clock(h.AwaySince))
	if before := slices.DeleteFunc(slices.Clone(h.Before), func(name string) bool { return name == "" }); len(before) > 0 {
		text += ": earlier ran " + strings.Join(before, ", ")
	} else if len(h.Before) > 0 {
		text += ": a filter of others ran earlier"
	}
	switch {
	case !h.AwayUntil.IsZero():
		text += "; it is there again since " + clock(h.AwayUntil)
	case h.Fault != "":
		text += fmt.Sprintf("; it cannot be moved: %s", h.Fault)
	case h.Next.IsZero():
		text += "; it is being moved"
	default:
		text += "; the next move is at " + nextClock(h.Next)
	}
	if h.Repairs > 1 {
		text += fmt.Sprintf("; it was moved %d times lately, and waits longer each time", h.Repairs)
	}
	return h.warning(
		HookDisplaced,
		text+"; an earlier program that ends the chain hides packets; "+h.consequence(h.AwayUntil),
		fmt.Sprintf(
			"let the other program attach itself later in the chain, or set place of %s: last, \"before NAME\" or \"after NAME\"",
			h.Interface,
		),
	)
}

func (h Hook) preceded() Warning {
	list := append(append([]string(nil), h.XDP...), h.Before...)
	text := fmt.Sprintf(
		"programs of others run before Waymark's on %s: %s; it does not see packets that they drop, redirect or accept for good",
		h.hook(),
		strings.Join(list, ", "),
	)
	cure := "check that they leave packets to the next program (TCX_NEXT or TC_ACT_UNSPEC; XDP_PASS)"
	switch {
	case h.Mode == modeClsact && len(h.Before) > 0:
		cure = "set attach: auto, so that it can run first: what is in tcx runs before any clsact filter, which attach: clsact asks for; else " +
			cure
	case h.Place != placeFirst && len(h.Before) > 0:
		cure += fmt.Sprintf("; else set place: first at %s", h.Interface)
	}
	if h.Place != placeFirst || len(h.Before) == 0 {
		w := New(HookPreceded, h.Interface, text, cure)
		if h.Boundary != "" {
			w.Severity = Degraded
		}
		return w
	}
	return h.warning(HookPreceded, text, cure) // it should run first, and cannot
}

// The words of the mode and the place that decide what can be done.
const (
	modeClsact = "clsact"
	placeFirst = "first"
)

// changed has the severity of an open edge only where no program of others should run earlier.
func (h Hook) changed() Warning {
	text := fmt.Sprintf("programs of others came to %s, or went, between %s and %s; they may have run before Waymark's meanwhile; %s",
		h.hook(), clock(h.Changed), clock(h.ChangedUntil), h.consequence(h.ChangedUntil))
	cure := "nothing, if their programs run after Waymark's or may run earlier; else find what attaches and detaches them " +
		"('waymark status' lists those that run earlier)"
	if h.Place != placeFirst {
		return New(HookChanged, h.Interface, text, cure)
	}
	return h.warning(HookChanged, text, cure)
}

func (h Hook) bypassed() Warning {
	before := "no program of others is known to run before it"
	if list := append(append([]string(nil), h.XDP...), h.Before...); len(list) > 0 {
		before = "before it run " + strings.Join(list, ", ")
	}
	return h.warning(
		HookBypassed,
		fmt.Sprintf(
			"Waymark's program on %s is attached, but has seen none of %d packets that the interface counted since %s; %s; %s",
			h.hook(),
			h.Unseen,
			clock(h.UnseenSince),
			before,
			h.consequence(time.Time{}),
		),
		"'waymark status' lists the programs that run earlier: remove what ends the chain, or change place; also turn off what "+
			"passes packets around the stack (hardware offload of flows, AF_XDP)",
	)
}
