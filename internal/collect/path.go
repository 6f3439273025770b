// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// PathRecord is the path of one packet, joined of its postcards. Its JSON names
// are a contract: they are added to, never changed.
type PathRecord struct {
	Kind      string           `json:"kind"`          // always "path"
	Time      instant.Time     `json:"time,omitzero"` // at the first node that told it
	Namespace ioam.NamespaceID `json:"namespace"`
	TraceType ioam.TraceType   `json:"trace_type"`
	FlowID    uint32           `json:"flow_id"`
	Sequence  uint32           `json:"sequence"`
	Packet    export.Packet    `json:"packet,omitzero"`
	Complete  bool             `json:"complete"`
	Reason    string           `json:"reason,omitempty"`       // why it is not complete
	LastSeen  *LastSeen        `json:"last_seen,omitempty"`    // behind which the packet was not seen
	Missing   []int            `json:"missing_hops,omitempty"` // hop limits that nobody reported
	Nodes     []PathNode       `json:"nodes"`                  // in path order
	Delay     *int64           `json:"delay_ns,omitempty"`     // from the encapsulating to the decapsulating node

	reason join.Reason
}

// LastSeen is the node behind which a packet was not seen.
type LastSeen struct {
	Node     string                      `json:"node,omitempty"`
	Exporter netip.Addr                  `json:"exporter"`
	NodeID   export.Field[ioam.NodeID]   `json:"node_id,omitzero"`
	HopLimit export.Field[uint8]         `json:"hop_limit,omitzero"`
	Egress   string                      `json:"egress,omitempty"`
	EgressID export.Field[model.IfIndex] `json:"egress_ifindex,omitzero"`
}

// PathNode is what one node reported of the packet. Timestamp is the node's, or
// when it observed the packet.
type PathNode struct {
	Node           string          `json:"node,omitempty"` // its name, when its exporter told it
	Exporter       netip.Addr      `json:"exporter"`
	Role           export.NodeRole `json:"role"`
	Ingress        string          `json:"ingress,omitempty"`
	Egress         string          `json:"egress,omitempty"`
	IngressIfIndex model.IfIndex   `json:"ingress_ifindex,omitempty"`
	EgressIfIndex  model.IfIndex   `json:"egress_ifindex,omitempty"`
	export.TraceNode
	SincePrevious *int64 `json:"since_previous_ns,omitempty"` // negative where clocks differ
}

// newPathRecord makes the record of a path.
func newPathRecord(p *join.Path) *PathRecord {
	first := p.Postcards[0].Record
	r := &PathRecord{
		Kind: "path", Namespace: p.Namespace, TraceType: first.TraceType, FlowID: p.FlowID, Sequence: p.Sequence,
		Packet: first.Packet, Complete: p.Reason == join.Complete, Nodes: make([]PathNode, len(p.Postcards)), reason: p.Reason,
	}
	if !r.Complete {
		r.Reason = p.Reason.String()
	}
	for i := range p.Postcards {
		card, d := &p.Postcards[i], p.Postcards[i].Record
		n := PathNode{
			Node: d.Node, Exporter: card.Exporter.Addr, Role: d.Role, Ingress: d.Ingress, Egress: d.Egress,
			IngressIfIndex: d.IngressIfIndex, EgressIfIndex: d.EgressIfIndex, TraceNode: d.Data,
		}
		n.Timestamp = export.NewField(card.Time, !card.Time.IsZero())
		if since, ok := p.Since(i); ok {
			n.SincePrevious = nanoseconds(since)
		}
		if r.Time.IsZero() {
			r.Time = instant.Of(card.Time)
		}
		r.Nodes[i] = n
	}
	for _, h := range p.Missing {
		r.Missing = append(r.Missing, int(h)) // []uint8 would be base64
	}
	if i, ok := p.LastSeen(); ok {
		n := &r.Nodes[i]
		r.LastSeen = &LastSeen{Node: n.Node, Exporter: n.Exporter, NodeID: n.NodeID, HopLimit: n.HopLimit, Egress: n.Egress}
		if n.EgressIfIndex != 0 {
			r.LastSeen.EgressID = export.NewField(n.EgressIfIndex, true)
		}
	}
	if d, ok := p.EndToEnd(); ok {
		r.Delay = nanoseconds(d)
	}
	return r
}

func nanoseconds(d time.Duration) *int64 {
	n := d.Nanoseconds()
	return &n
}

// Text is the path for people: a line for the packet, an aligned one for each
// node, and what is missing.
func (r *PathRecord) Text() string {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.String() + "  ")
	}
	if r.Packet.Source.IsValid() {
		b.WriteString(r.Packet.String() + ", ")
	}
	fmt.Fprintf(&b, "namespace %d, flow 0x%08x, sequence %d", r.Namespace, r.FlowID, r.Sequence)
	if r.Delay != nil {
		fmt.Fprintf(&b, ", %s end to end", export.Duration(time.Duration(*r.Delay)))
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i := range r.Nodes {
		fmt.Fprintln(t, "    "+strings.Join(r.Nodes[i].cells(), "\t"))
	}
	t.Flush() // to memory
	if !r.Complete {
		b.WriteString("    incomplete: " + r.explain() + "\n")
	}
	return b.String()
}

// explain says why the path is incomplete.
func (r *PathRecord) explain() string {
	text := r.reason.Meaning()
	if r.LastSeen != nil {
		text = "not seen after " + r.Nodes[len(r.Nodes)-1].name() + "; " + text
	}
	if len(r.Missing) > 0 {
		text += fmt.Sprintf("; nobody reported hop limit %s", strings.Trim(fmt.Sprint(r.Missing), "[]"))
	}
	return text
}

// name is the node's name with its id, else the id, else its exporter.
func (n *PathNode) name() string {
	id := ""
	switch {
	case n.NodeID.Valid:
		id = fmt.Sprint(n.NodeID.Value)
	case n.NodeIDWide.Valid:
		id = fmt.Sprint(n.NodeIDWide.Value)
	}
	switch {
	case n.Node != "" && id != "":
		return n.Node + "(" + id + ")"
	case n.Node != "":
		return n.Node
	case id != "":
		return "node " + id
	}
	return n.Exporter.String()
}

// cells are the columns of the node's line; "-" is "not available".
func (n *PathNode) cells() []string {
	cells := []string{n.name(), n.Role.String(), link(n.Ingress, n.IngressIfIndex) + " > " + link(n.Egress, n.EgressIfIndex)}
	if n.HopLimit.Valid {
		cells = append(cells, fmt.Sprintf("hop limit %d", n.HopLimit.Value))
	} else {
		cells = append(cells, "hop limit -")
	}
	switch {
	case n.SincePrevious != nil:
		since := export.Duration(time.Duration(*n.SincePrevious))
		if *n.SincePrevious >= 0 {
			since = "+" + since
		}
		cells = append(cells, since)
	case n.Timestamp.Valid:
		cells = append(cells, "at "+n.Timestamp.Value.UTC().Format("15:04:05.000000000"))
	default:
		cells = append(cells, "-")
	}
	switch {
	case n.TransitDelayOverflow:
		cells = append(cells, "held over "+export.Duration(delayOverflow))
	case n.TransitDelay.Valid:
		cells = append(cells, "held "+export.Duration(time.Duration(n.TransitDelay.Value)))
	}
	if n.QueueDepth.Valid {
		cells = append(cells, fmt.Sprintf("queue %d", n.QueueDepth.Value))
	}
	return cells
}

// link is an interface's name, else its index.
func link(name string, index model.IfIndex) string {
	switch {
	case name != "":
		return name
	case index != 0:
		return fmt.Sprintf("if%d", index)
	}
	return "-"
}
