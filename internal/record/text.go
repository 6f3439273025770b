// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// protocols are the common names of upper layers.
var protocols = map[ioam.NextHeader]string{
	ioam.NextHeaderTCP: "TCP", ioam.NextHeaderUDP: "UDP", ioam.NextHeaderICMPv6: "ICMPv6", ioam.NextHeaderSCTP: "SCTP",
	ioam.NextHeaderDCCP: "DCCP", ioam.NextHeaderUDPLite: "UDP-Lite", ioam.NextHeaderIPv6: "IPv6", ioam.NextHeaderNone: "no payload",
}

// Ends is "SOURCE > DESTINATION", with ports where the packet has them.
func (p Packet) Ends() string {
	end := func(a netip.Addr, port *uint16) string {
		if port == nil {
			return a.String()
		}
		return netip.AddrPortFrom(a, *port).String()
	}
	return end(p.Source, p.SourcePort) + " > " + end(p.Destination, p.DestinationPort)
}

// String is "SOURCE > DESTINATION, PROTOCOL, N bytes"; without the bytes for a flow.
func (p Packet) String() string {
	if !p.Source.IsValid() {
		return "unknown packet"
	}
	if p.Length == 0 {
		return p.Ends() + ", " + p.protocol()
	}
	return fmt.Sprintf("%s, %s, %d bytes", p.Ends(), p.protocol(), p.Length)
}

// protocol is the name of the upper layer.
func (p Packet) protocol() string {
	if name, ok := protocols[p.NextHeader]; ok {
		return name
	}
	return "protocol " + strconv.Itoa(int(p.NextHeader))
}

// Text is the record as readable text: a line for the packet, then its path.
func (r Trace) Text() string {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.String() + "  ")
	}
	if r.Node != "" || r.Interface != "" {
		b.WriteString(strings.TrimSpace(Printable(r.Node)+" "+Printable(r.Interface)) + "  ")
	}
	fmt.Fprintf(&b, "%s, namespace %d, type %v", r.Packet, r.Namespace, r.TraceType)
	if r.Option != ioam.IOAMPreallocatedTrace.String() {
		fmt.Fprintf(&b, ", %s trace", r.Option)
	}
	if r.Source != 0 {
		fmt.Fprintf(&b, ", reported by the %v", r.Source)
	}
	if r.Remaining.Value > 0 {
		fmt.Fprintf(&b, ", %d bytes free", 4*r.Remaining.Value)
	}
	if total, over, ok := r.Elapsed(); ok {
		fmt.Fprintf(&b, ", %s %s", Duration(total), over)
	}
	return b.String() + "\n" + r.PathText()
}

// PathText is the path as readable text: an aligned line for each node.
func (r Trace) PathText() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, h := range r.hops() {
		fmt.Fprintln(t, "    "+strings.Join(h.cells(), "\t"))
	}
	t.Flush() // cannot fail: to memory
	return b.String() + r.remarks()
}

// remarks are lines about the trace as a whole.
func (r Trace) remarks() string {
	var b strings.Builder
	if r.Active {
		b.WriteString("    a probe: it has the Active flag\n")
	}
	if r.Copy {
		fmt.Fprintf(&b, "    a copy, which %v returned: first the nodes of the way there, then those of the way back\n", r.Packet.Source)
	}
	if r.Overflow.Value {
		b.WriteString("    and further nodes, for which the trace had no room\n")
	}
	if d, ok := r.rest(); ok && !r.Copy {
		fmt.Fprintf(&b, "    then %s to the node that removed the trace, which wrote no time\n", Duration(d))
	}
	return b.String()
}

// PathLine is the path in one line for logs: "NODE KEY=VALUE …; NODE …;
// end-to-end=TIME", or another stretch of [Trace.Elapsed], with times in microseconds.
// Optional fields appear when they have a value.
func (r Trace) PathLine() string {
	var parts []string
	for _, h := range r.hops() {
		parts = append(parts, strings.Join(h.pairs(), " "))
	}
	if r.Overflow.Value {
		parts = append(parts, "overflow")
	}
	if total, over, ok := r.Elapsed(); ok {
		parts = append(parts, strings.ReplaceAll(string(over), " ", "-")+"="+micros(total))
	}
	return strings.Join(parts, "; ")
}

// Stretch is the part of a packet's path that a time covers.
type Stretch string

// The stretches that the times of a trace can cover.
const (
	EndToEnd     Stretch = "end to end"     // from the first node to the one that removed the trace
	ToHere       Stretch = "to here"        // to the last node before the packet was observed
	ThereAndBack Stretch = "there and back" // of a copy: from this node to the one that returned it, and back
	FirstToLast  Stretch = "first to last"  // of the known times: others are missing
)

// Elapsed is how long the packet took, and the stretch that this covers; ok is false if no
// two times are known. Where the trace ended, the end is when the packet was there, whether
// or not that node could write into it.
func (r Trace) Elapsed() (total time.Duration, over Stretch, ok bool) {
	for _, h := range r.hops() {
		total += h.since
		ok = ok || h.timed
	}
	if len(r.Nodes) == 0 || !r.Nodes[0].Timestamp.Valid {
		return total, FirstToLast, ok
	}
	d, further := r.rest()
	switch whole := r.Nodes[len(r.Nodes)-1].Timestamp.Valid && !r.Overflow.Value; {
	case r.Copy && further:
		return total + d, ThereAndBack, true
	case further:
		return total + d, EndToEnd, true
	case !whole:
		return total, FirstToLast, ok
	case r.Copy || r.Source == SourceKernel || r.OnItsWay || r.Undated:
		return total, ToHere, ok
	}
	return total, EndToEnd, ok
}

// end is when the packet was where its trace ended. With one node in the trace, that may
// be the one that reports it.
func (r Trace) end() (at time.Time, known bool) {
	ended := r.Source != SourceKernel && !r.OnItsWay && !r.Undated && !r.Time.IsZero()
	return r.Time.Time, ended && (len(r.Nodes) > 1 || r.Overflow.Value)
}

// rest is how long after the last time in the trace the packet was where it ended, if the
// node there wrote no time.
func (r Trace) rest() (d time.Duration, ok bool) {
	end, known := r.end()
	if !known {
		return 0, false
	}
	for _, n := range slices.Backward(r.Nodes) {
		if n.Timestamp.Valid {
			d = end.Sub(n.Timestamp.Value)
			break
		}
	}
	return d, d.Abs() > timestampStep
}

// timestampStep is more than any format of timestamps with a fraction rounds.
const timestampStep = time.Microsecond

// hop is what one node wrote, and what follows from the nodes before it.
type hop struct {
	NodeData
	since time.Duration // since the latest timestamp of a previous node
	timed bool          // since is known
}

func (r Trace) hops() []hop {
	hops := make([]hop, len(r.Nodes))
	var last Field[time.Time]
	for i, n := range r.Nodes {
		hops[i] = hop{NodeData: n}
		if !n.Timestamp.Valid {
			continue
		}
		if last.Valid {
			hops[i].since, hops[i].timed = n.Timestamp.Value.Sub(last.Value), true
		}
		last = n.Timestamp
	}
	return hops
}

// cell is what stands in a column, and the column's rank: the greatest goes first where there is
// no room.
type cell struct {
	text string
	rank int
}

// cells are the columns of the hop's line; "-" is "not available".
func (h hop) cells() []string {
	var list []string
	for _, c := range h.ranked(Duration, "15:04:05.000000000") {
		list = append(list, c.text)
	}
	return list
}

// ranked are the columns, with times as duration and layout write them.
func (h hop) ranked(duration func(time.Duration) string, layout string) []cell {
	cells := []cell{{h.node("node %s"), 0}}
	add := func(rank int, text string) { cells = append(cells, cell{text, rank}) }
	if h.NodeID.Present && h.NodeIDWide.Present {
		add(5, "wide "+text(h.NodeIDWide))
	}
	if h.IngressID.Present || h.IngressIDWide.Present {
		in, out := h.links()
		add(0, in+" > "+out)
	}
	if h.IngressID.Present && h.IngressIDWide.Present {
		add(5, "wide "+text(h.IngressIDWide)+" > "+text(h.EgressIDWide))
	}
	if h.HopLimit.Present {
		add(3, "hop limit "+text(h.HopLimit))
	}
	switch {
	case h.timed && h.since < 0: // the clocks differ
		add(0, duration(h.since))
	case h.timed:
		add(0, "+"+duration(h.since))
	case h.Timestamp.Valid:
		add(0, "at "+h.Timestamp.Value.UTC().Format(layout))
	case h.Timestamp.Present:
		add(0, none)
	}
	switch {
	case h.TransitDelayOverflow:
		add(0, "held over "+duration(1<<31))
	case h.TransitDelay.Valid:
		add(0, "held "+duration(time.Duration(h.TransitDelay.Value)))
	case h.TransitDelay.Present:
		add(0, "held -")
	}
	for _, x := range h.extras() {
		add(extraRanks[x.key], x.key+" "+x.value)
	}
	return cells
}

// extraRanks are the ranks of columns of [hop.extras].
var extraRanks = map[string]int{"queue": 1, "buffer": 2, "fraction": 4, "data": 4, "data-wide": 4, "schema": 4, "checksum": 5}

// pairs are the node and KEY=VALUE for its data.
func (h hop) pairs() []string {
	pairs := []string{withID(h.NodeName, h.node("node(%s)"), h.NodeID)}
	add := func(key, value string) { pairs = append(pairs, key+"="+value) }
	if h.NodeID.Present && h.NodeIDWide.Valid {
		add("node-wide", text(h.NodeIDWide))
	}
	if h.IngressID.Present {
		in, out := h.links()
		add("in", withID(h.IngressName, in, h.IngressID))
		add("out", withID(h.EgressName, out, h.EgressID))
	}
	if h.IngressIDWide.Present {
		add("in-wide", text(h.IngressIDWide))
		add("out-wide", text(h.EgressIDWide))
	}
	if h.HopLimit.Present {
		add("hop-limit", text(h.HopLimit))
	}
	if h.timed {
		add("hop-delay", micros(h.since))
	}
	switch {
	case h.TransitDelayOverflow:
		add("transit-delay", "over-"+micros(1<<31))
	case h.TransitDelay.Valid:
		add("transit-delay", micros(time.Duration(h.TransitDelay.Value)))
	}
	for _, x := range h.extras() {
		if x.value != none {
			add(x.key, x.value)
		}
	}
	return pairs
}

// node is the node's name, else its id in format. The wide id is used where the trace has no
// short one.
func (h hop) node(format string) string {
	id := none
	switch {
	case h.NodeName != "":
		return nodenames.Printable(h.NodeName)
	case h.NodeID.Valid:
		id = text(h.NodeID)
	case !h.NodeID.Present:
		id = text(h.NodeIDWide)
	}
	return fmt.Sprintf(format, id)
}

// links are the names of the interfaces of arrival and departure, else their ids.
func (h hop) links() (in, out string) {
	in, out = text(h.IngressID), text(h.EgressID)
	if !h.IngressID.Present {
		in, out = text(h.IngressIDWide), text(h.EgressIDWide)
	}
	return cmp.Or(nodenames.Printable(h.IngressName), in), cmp.Or(nodenames.Printable(h.EgressName), out)
}

// withID is a name with its id after it for programs, else what is shown without a name.
func withID[T any](name, shown string, id Field[T]) string {
	if name == "" || !id.Valid {
		return shown
	}
	return shown + "(" + text(id) + ")"
}

type keyValue struct{ key, value string }

// extras are the fields that few traces have.
func (h hop) extras() []keyValue {
	var list []keyValue
	add := func(key string, present bool, value string) {
		if present {
			list = append(list, keyValue{key, value})
		}
	}
	add("fraction", h.TimestampFraction.Present, text(h.TimestampFraction))
	add("data", h.NamespaceData.Present, text(h.NamespaceData))
	add("data-wide", h.NamespaceDataWide.Present, text(h.NamespaceDataWide))
	add("queue", h.QueueDepth.Present, text(h.QueueDepth))
	add("checksum", h.ChecksumComplement.Present, text(h.ChecksumComplement))
	add("buffer", h.BufferOccupancy.Present, text(h.BufferOccupancy))
	schema := none
	if s := h.Snapshot; s.Valid {
		schema = fmt.Sprintf("%d:%q", s.Value.Schema, strings.TrimRight(string(s.Value.Data), "\x00"))
	}
	add("schema", h.Snapshot.Present, schema)
	return list
}

// none is how "not available" is written.
const none = "-"

func text[T any](f Field[T]) string {
	if !f.Valid {
		return none
	}
	return fmt.Sprint(f.Value)
}

// Duration writes a time in the largest fitting unit, with all its digits.
func Duration(d time.Duration) string { return d.String() }

func micros(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Microsecond), 'f', -1, 64) + "µs"
}

// MonitorLine is a trace as "ip ioam monitor" of iproute2 prints the kernel's events: the data of
// all nodes, the newest first, as they are in the packet. The kernel's type has the reserved octet, too.
func (t *Trace) MonitorLine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[TRACE] Namespace=%d NodeLen=%d Type=0x%06x Data=", t.Namespace, t.TraceType.NodeLen(), uint32(t.TraceType)<<8)
	for _, node := range slices.Backward(t.Raw) {
		fmt.Fprintf(&b, "%x", node.Bytes)
	}
	b.WriteByte('\n')
	return b.String()
}
