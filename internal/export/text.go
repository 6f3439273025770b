// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

// protocols are the names of upper layers that people know.
var protocols = map[ioam.NextHeader]string{
	ioam.NextHeaderTCP: "TCP", ioam.NextHeaderUDP: "UDP", ioam.NextHeaderICMPv6: "ICMPv6", ioam.NextHeaderSCTP: "SCTP",
	ioam.NextHeaderDCCP: "DCCP", ioam.NextHeaderUDPLite: "UDP-Lite", ioam.NextHeaderIPv6: "IPv6", ioam.NextHeaderNone: "no payload",
}

// String is "SOURCE > DESTINATION, PROTOCOL, N bytes".
func (p Packet) String() string {
	end := func(a netip.Addr, port *uint16) string {
		if port == nil {
			return a.String()
		}
		return netip.AddrPortFrom(a, *port).String()
	}
	name, ok := protocols[p.NextHeader]
	if !ok {
		name = "protocol " + strconv.Itoa(int(p.NextHeader))
	}
	return fmt.Sprintf("%s > %s, %s, %d bytes", end(p.Source, p.SourcePort), end(p.Destination, p.DestinationPort), name, p.Length)
}

// Text is the record for people: a line for the packet, then one per node in
// path order, each with the time since the node before.
func (r TraceRecord) Text() string {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format("2006-01-02T15:04:05.000000000Z") + "  ")
	}
	if r.Node != "" || r.Interface != "" {
		b.WriteString(strings.TrimLeft(r.Node+" "+r.Interface, " ") + "  ")
	}
	fmt.Fprintf(&b, "%s: %s trace, namespace %d, type %v", r.Packet, r.Option, r.Namespace, r.TraceType)
	if r.Overflow {
		b.WriteString(", OVERFLOW")
	}
	if r.Remaining > 0 {
		fmt.Fprintf(&b, ", %d bytes free", 4*r.Remaining)
	}
	b.WriteByte('\n')
	var before Field[time.Time]
	for i, n := range r.Nodes {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, strings.Join(n.words(before), "  "))
		before = n.Timestamp
	}
	return b.String()
}

// words lists the node's fields; before is the timestamp of the node before.
func (n TraceNode) words(before Field[time.Time]) []string {
	w := wordList{}
	addField(&w, "node", n.NodeID)
	addField(&w, "node-wide", n.NodeIDWide)
	addField(&w, "hop-limit", n.HopLimit)
	addField(&w, "in", n.IngressID)
	addField(&w, "out", n.EgressID)
	addField(&w, "in-wide", n.IngressIDWide)
	addField(&w, "out-wide", n.EgressIDWide)
	if n.Timestamp.Present {
		text := "-"
		if n.Timestamp.Valid {
			text = n.Timestamp.Value.Format("15:04:05.000000000")
			if before.Valid {
				text += " (" + signed(n.Timestamp.Value.Sub(before.Value)) + ")"
			}
		}
		w = append(w, "at "+text)
	}
	addField(&w, "fraction", n.TimestampFraction)
	switch {
	case n.TransitDelayOverflow:
		w = append(w, "delay over 2.147483648s")
	case n.TransitDelay.Valid:
		w = append(w, fmt.Sprintf("delay %v", time.Duration(n.TransitDelay.Value)))
	case n.TransitDelay.Present:
		w = append(w, "delay -")
	}
	addField(&w, "data", n.NamespaceData)
	addField(&w, "data-wide", n.NamespaceDataWide)
	addField(&w, "queue", n.QueueDepth)
	addField(&w, "checksum", n.ChecksumComplement)
	addField(&w, "buffer", n.BufferOccupancy)
	if s := n.Snapshot; s.Valid {
		w = append(w, fmt.Sprintf("schema %d %q", s.Value.Schema, strings.TrimRight(string(s.Value.Data), "\x00")))
	} else if s.Present {
		w = append(w, "schema -")
	}
	return w
}

// signed shows a time between two clocks: it may be negative.
func signed(d time.Duration) string {
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

type wordList []string

// addField adds a field that the trace has; "-" is "not available".
func addField[T any](w *wordList, name string, f Field[T]) {
	switch {
	case f.Valid:
		*w = append(*w, fmt.Sprintf("%s %v", name, f.Value))
	case f.Present:
		*w = append(*w, name+" -")
	}
}
