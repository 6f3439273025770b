// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// What records and metrics are called in OpenTelemetry: by its conventions where they have a name,
// else with the prefix "waymark.". All names are in this file.
const (
	// schemaURL is the version of the conventions that names of the conventions are of.
	schemaURL = "https://opentelemetry.io/schemas/1.37.0"
	scope     = "github.com/waymark-net/waymark"

	// Of the conventions.
	keyService         = "service.name"
	keyErrorType       = "error.type"
	keyNetworkType     = "network.type"
	keyTransport       = "network.transport"
	keySourceAddress   = "source.address"
	keySourcePort      = "source.port"
	keyDestination     = "destination.address"
	keyDestinationPort = "destination.port"

	// Ours: RFC 9197 has no conventions.
	keyNamespace = "waymark.namespace"
	keyFlowID    = "waymark.flow.id"
	keySequence  = "waymark.sequence"
	keyFlowLabel = "waymark.flow.label"
	keyPath      = "waymark.path"
	keyDelay     = "waymark.path.delay_ns"
	keyVerdict   = "waymark.verdict"
	keyNodeID    = "waymark.node.id"
	keyNodeRole  = "waymark.node.role"
	keyHopLimit  = "waymark.hop.limit"
	keyHeld      = "waymark.hop.held_ns"
	keyQueue     = "waymark.queue.depth"
	keyIngress   = "waymark.interface.in"
	keyEgress    = "waymark.interface.out"
	keySkew      = "waymark.clock.skew_ns" // how much earlier a node says that it was than the one before
	keySubject   = "waymark.subject"
	prefix       = "waymark."
)

// hop is a node of a path.
type hop struct {
	node       string // resource
	in, out    string // interfaces
	start, end time.Time
	attributes []attribute
}

// way is a path as a trace of OpenTelemetry.
type way struct {
	id         [16]byte
	reporter   string // resource of the root
	hops       []hop  // with times
	names      []string
	delay      time.Duration // of the whole; negative: not known
	incomplete string        // why; "": it is complete
	attributes []attribute
	trace      *record.Trace // that it is of; nil: of a Direct Export
}

// wayOf is the path of a record; nil: it is none, or has no times.
func wayOf(r record.Record) *way {
	switch r := r.(type) {
	case *record.Trace:
		return wayOfTrace(r)
	case *record.Path:
		return wayOfPath(r)
	}
	return nil
}

// wayOfTrace is the path of a packet with a trace.
func wayOfTrace(r *record.Trace) *way {
	if r.Copy || r.OnItsWay {
		return nil
	}
	w := &way{reporter: r.Node, delay: -1, attributes: packetAttributes(r.Namespace, &r.Packet), trace: r}
	if r.PathDelay.Valid {
		w.delay = time.Duration(r.PathDelay.Value)
	}
	if r.Overflow.Valid && r.Overflow.Value {
		w.incomplete = "trace_overflow"
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		w.add(nodeName(n.NodeName, n), n.IngressName, n.EgressName, n, nil)
	}
	var more []byte
	for _, d := range r.Raw {
		more = append(more, d.Bytes...)
	}
	return w.finish(r.Namespace, &r.Packet, more)
}

// wayOfPath is the path of a packet with a Direct Export.
func wayOfPath(r *record.Path) *way {
	w := &way{delay: -1, attributes: packetAttributes(r.Namespace, &r.Packet)}
	w.attributes = append(w.attributes, attribute{keyFlowID, int64(r.FlowID)}, attribute{keySequence, int64(r.Sequence)})
	if r.Delay != nil {
		w.delay = time.Duration(*r.Delay)
	}
	if !r.Complete {
		w.incomplete = cmp.Or(r.Reason.String(), "incomplete")
	}
	if v := r.Verdict.String(); v != "" {
		w.attributes = append(w.attributes, attribute{keyVerdict, v})
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		name := cmp.Or(n.Node, n.NodeName)
		if name == "" && n.Exporter.IsValid() {
			name = n.Exporter.String()
		}
		in, out := cmp.Or(n.Ingress, n.IngressName), cmp.Or(n.Egress, n.EgressName)
		w.add(nodeName(name, &n.NodeData), in, out, &n.NodeData, []attribute{{keyNodeRole, n.Role.String()}})
	}
	if len(r.Nodes) > 0 {
		w.reporter = w.names[0]
	}
	var more [8]byte
	binary.BigEndian.PutUint32(more[:], r.FlowID)
	binary.BigEndian.PutUint32(more[4:], r.Sequence)
	return w.finish(r.Namespace, &r.Packet, more[:])
}

// add adds a node. One without a time is in the name of the path only.
func (w *way) add(name, in, out string, n *record.NodeData, more []attribute) {
	w.names = append(w.names, name)
	if !n.Timestamp.Valid || n.Timestamp.Value.Unix() <= 0 {
		return
	}
	if in == "" && n.IngressID.Valid {
		in = fmt.Sprint(n.IngressID.Value)
	}
	if out == "" && n.EgressID.Valid {
		out = fmt.Sprint(n.EgressID.Value)
	}
	h := hop{node: name, in: in, out: out, start: n.Timestamp.Value, end: n.Timestamp.Value, attributes: more}
	number := func(key string, known bool, v int64) {
		if known {
			h.attributes = append(h.attributes, attribute{key, v})
		}
	}
	number(keyNodeID, n.NodeID.Valid, int64(n.NodeID.Value))
	number(keyHopLimit, n.HopLimit.Valid, int64(n.HopLimit.Value))
	number(keyQueue, n.QueueDepth.Valid, int64(n.QueueDepth.Value))
	if n.TransitDelay.Valid && !n.TransitDelayOverflow {
		h.end = h.start.Add(time.Duration(n.TransitDelay.Value))
		number(keyHeld, true, int64(n.TransitDelay.Value))
	}
	for _, one := range [][2]string{{keyIngress, in}, {keyEgress, out}} {
		if one[1] != "" {
			h.attributes = append(h.attributes, attribute{one[0], one[1]})
		}
	}
	// Clocks differ: times stay as the nodes have them, and the span says so.
	if len(w.hops) > 0 {
		if before := w.hops[len(w.hops)-1].start; h.start.Before(before) {
			number(keySkew, true, int64(before.Sub(h.start)))
		}
	}
	w.hops = append(w.hops, h)
}

// finish makes the id of what it has: the same for the same packet, so that a repeated export
// overwrites the first one.
func (w *way) finish(namespace ioam.NamespaceID, p *record.Packet, more []byte) *way {
	if len(w.hops) == 0 {
		return nil
	}
	w.attributes = append(w.attributes, attribute{keyPath, strings.Join(w.names, ">")})
	if w.delay >= 0 {
		w.attributes = append(w.attributes, attribute{keyDelay, int64(w.delay)})
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %v %v %d ", namespace, p.Source, p.Destination, w.hops[0].start.UnixNano())
	h.Write(more)
	copy(w.id[:], h.Sum(nil))
	w.id[0] |= 1 // never all zero, which is no id
	return w
}

// span is the id of a span: 0 is the root, then the hops.
func (w *way) span(index int) []byte {
	h := sha256.Sum256(append(w.id[:], byte(index), byte(index>>8)))
	h[0] |= 1
	return h[:8]
}

// bounds are the first and last times of the path.
func (w *way) bounds() (start, end time.Time) {
	start, end = w.hops[0].start, w.hops[0].end
	for _, h := range w.hops {
		if h.start.Before(start) {
			start = h.start
		}
		if h.end.After(end) {
			end = h.end
		}
	}
	return start, end
}

// nodeName names a node: by its name, else by its id.
func nodeName(name string, n *record.NodeData) string {
	switch {
	case name != "":
		return name
	case n.NodeID.Valid:
		return fmt.Sprintf("node %d", n.NodeID.Value)
	case n.NodeIDWide.Valid:
		return fmt.Sprintf("node %d", n.NodeIDWide.Value)
	}
	return "unknown node"
}

// transports are the conventions' names.
var transports = map[ioam.NextHeader]string{ioam.NextHeaderTCP: "tcp", ioam.NextHeaderUDP: "udp"}

func packetAttributes(namespace ioam.NamespaceID, p *record.Packet) []attribute {
	list := []attribute{{keyNamespace, int64(namespace)}}
	if !p.Source.IsValid() {
		return list
	}
	network := func(a netip.Addr) string {
		if a.Is4() {
			return "ipv4"
		}
		return "ipv6"
	}
	list = append(list, attribute{keyNetworkType, network(p.Source)},
		attribute{keySourceAddress, p.Source.String()}, attribute{keyDestination, p.Destination.String()})
	if name, ok := transports[p.NextHeader]; ok {
		list = append(list, attribute{keyTransport, name})
	}
	if p.SourcePort != nil {
		list = append(list, attribute{keySourcePort, int64(*p.SourcePort)})
	}
	if p.DestinationPort != nil {
		list = append(list, attribute{keyDestinationPort, int64(*p.DestinationPort)})
	}
	if p.FlowLabel != 0 {
		list = append(list, attribute{keyFlowLabel, int64(p.FlowLabel)})
	}
	return list
}

// severities are the numbers and texts of OpenTelemetry.
var severities = map[record.Severity]struct {
	number uint64
	text   string
}{record.SeverityInfo: {9, "INFO"}, record.SeverityWarning: {13, "WARN"}, record.SeverityError: {17, "ERROR"}}

// eventName is the name of an event's log record.
func eventName(e *record.Event) string { return prefix + e.Name }

func eventAttributes(e *record.Event) (list []attribute) {
	if e.Subject != "" {
		list = append(list, attribute{keySubject, e.Subject})
	}
	if e.ID != "" {
		list = append(list, attribute{prefix + "event.id", e.ID})
	}
	for _, l := range e.Labels {
		list = append(list, attribute{prefix + l.Name, l.Text})
	}
	for _, v := range e.Values {
		list = append(list, attribute{prefix + v.Name, v.Number})
	}
	if !e.Since.IsZero() {
		list = append(list, attribute{prefix + "since", e.Since.String()})
	}
	return list
}

// units are those of metrics, by the end of their name for Prometheus.
var units = [...][2]string{{"_seconds", "s"}, {"_bytes", "By"}, {"_octets", "By"}, {"_packets", "{packet}"}, {"_ratio", "1"}}

// metricName is the name of a metric, from which an exporter to Prometheus makes the one that it
// has in /metrics, and its unit.
func metricName(name string) (out, unit string) {
	out = strings.TrimSuffix(name, "_total")
	if rest, ok := strings.CutPrefix(out, "waymark_"); ok {
		out = prefix + rest
	}
	for _, u := range units {
		if rest, ok := strings.CutSuffix(out, u[0]); ok && !strings.HasSuffix(rest, ".") && u[1] == "s" {
			return rest, u[1]
		} else if ok {
			return out, u[1]
		}
	}
	return out, "1"
}
