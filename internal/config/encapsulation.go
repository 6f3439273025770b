// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Encapsulation is one rule that adds IOAM to packets.
type Encapsulation struct {
	Name      string          `key:"name" required:"true"`
	Interface string          `key:"interface" required:"true"`
	Match     Match           `key:"match"`
	Flows     Share           `key:"flows" default:"1/1"`
	Frequency model.Frequency `key:"frequency" default:"1/1"`
	Budget    *Budget         `key:"budget" optional:"true"`
	Mode      model.Mode      `key:"mode" default:"auto"`
	Tunnel    *Tunnel         `key:"tunnel" optional:"true"`
	Nested    bool            `key:"nested" default:"false"`
	Options   []Option        `key:"options" required:"true"`
}

// Budget is the most that an encapsulation adds to what leaves its interface.
type Budget struct {
	Packets Percent `key:"packets" optional:"true"`
	Octets  Percent `key:"octets" optional:"true"`
}

// Match selects packets.
type Match struct {
	Destination     netip.Prefix     `key:"destination" optional:"any"`
	Source          netip.Prefix     `key:"source" optional:"any"`
	NextHeader      *ioam.NextHeader `key:"next-header" optional:"any"`
	SourcePort      *model.PortRange `key:"source-port" optional:"any"`
	DestinationPort *model.PortRange `key:"destination-port" optional:"any"`
	TrafficClass    *TrafficClass    `key:"traffic-class" optional:"any"`
	FlowLabel       *FlowLabel       `key:"flow-label" optional:"any"`
}

// Tunnel is the outer IPv6 header of an encapsulation.
type Tunnel struct {
	Source      netip.Addr `key:"source" optional:"true"`
	Destination netip.Addr `key:"destination" required:"true"`
}

// Option is one IOAM option to insert: a trace, a Direct Export, a proof or Edge-to-Edge.
type Option struct {
	Trace        *TraceOption        `key:"trace" optional:"true"`
	DirectExport *DirectExportOption `key:"dex" optional:"true"`
	Proof        *ProofOption        `key:"pot" optional:"true"`
	EdgeToEdge   *EdgeToEdgeOption   `key:"e2e" optional:"true"`
}

// DirectExportOption is a Direct Export to insert.
type DirectExportOption struct {
	Namespace      ioam.NamespaceID   `key:"namespace" required:"true"`
	TraceType      ioam.TraceType     `key:"trace-type" required:"true"`
	ExtensionFlags []ExtensionFlag    `key:"extension-flags" default:"[]"`
	FlowID         model.FlowIDSource `key:"flow-id" default:"hash"`
	OptionType     ioam.OptionType    `key:"option-type" default:"0x11"`
}

// encapsulationTexts say what the keys of encapsulations mean.
var encapsulationTexts = yamlfile.KeyTexts{
	"name":      "The rule's name, unique in the node.",
	"interface": "The egress interface; it must be named in interfaces.",
	"match":     "The packets that get the header; absent criteria match everything.",
	"flows": "1/N: only packets of one in N flows, selected by the flow hash. All packets of a flow are selected, or " +
		"none.",
	"frequency": "K/N: the first K of every N matching packets of the selected flows; a percentage is the smallest such " +
		"fraction, so 10% is 1/10. Each CPU takes 64 numbers at a time, so with several CPUs a count may differ " +
		"from K/N by at most 64 packets for each of them; what one CPU sees is exact.",
	"budget":         "The most that the rule adds, as a share of what leaves the interface.",
	"budget, absent": "no limit",
	"mode": "inline puts the header after the packet's own IPv6 header; encap puts an outer IPv6 header and the header " +
		"in front; auto is inline for packets that this node generates and encap for packets that it forwards, as " +
		"RFC 8200 requires; inline, too, for packets that have segments left in a Routing header (SRv6), which a " +
		"tunnel would bypass: encap leaves them alone.",
	"tunnel":         "The outer header of modes encap and auto.",
	"tunnel, absent": "no tunnel",
	"nested": "Also for packets that arrive with IOAM, as those of another domain around this one: a tunnel goes around " +
		"them, options inserted inline go into their header. Without it, of packets with IOAM only those that this " +
		"node generates get more. Match narrowly: each node with such a rule adds to what the others added.",
	"options":           "The IOAM options to insert, 1 to 9.",
	"match.destination": "IPv6 destination prefix.",
	"match.source":      "IPv6 source prefix.",
	"match.next-header": "Upper-layer protocol after all extension headers: a number, or one of tcp, udp, icmpv6, sctp, " +
		"dccp, udplite, ipv6, gre, esp, none.",
	"match.source-port":       "A port, or a range FROM-TO. Only TCP, UDP, UDP-Lite, SCTP and DCCP packets have ports.",
	"match.destination-port":  "As source-port.",
	"match.traffic-class":     "The IPv6 traffic class, all 8 bits.",
	"match.flow-label":        "The IPv6 flow label.",
	"budget.packets":          "Share of the interface's packets that get the header.",
	"budget.packets, absent":  "no limit",
	"budget.octets":           "Octets that the rule adds, as a share of the octets of the interface's frames.",
	"budget.octets, absent":   "no limit",
	"tunnel.source":           "Source address of the outer header: an address of this node, not a link-local one.",
	"tunnel.source, absent":   "the address from which the kernel would send to destination, followed when routes and addresses change",
	"tunnel.destination":      "Destination address of the outer header: the node that decapsulates; not this node.",
	"options[].trace":         "A trace, pre-allocated or incremental (RFC 9197 §4.4).",
	"options[].trace, absent": "another kind instead",
	"options[].dex": "A Direct Export (RFC 9326): nodes export their data about the packet instead of writing it into " +
		"the packet.",
	"options[].dex, absent": "another kind instead",
	"options[].pot": "A Proof of Transit (RFC 9197 §4.5): every node of the path adds to it, and the last one verifies " +
		"that all have.",
	"options[].pot, absent": "another kind instead",
	"options[].e2e": "An Edge-to-Edge option (RFC 9197 §4.6), in a Destination Options header: the decapsulating node " +
		"measures with it what became of the packets of each flow.",
	"options[].e2e, absent": "another kind instead",
	"options[].trace.namespace": "Namespace-ID. If it is not in namespaces, this node does not fill the trace and " +
		"leaves that to other nodes, as Linux does.",
	"options[].trace.type": "IOAM-Trace-Type, which fields each node writes: 24 bits, or " +
		"[names](../how-to/trace-a-prefix.md#1-choose-the-fields). Bits 12 to 21 and 23 are refused.",
	"options[].trace.size": "Bytes of node data to pre-allocate, or that an incremental trace may grow to: the data of " +
		"one node, by type, times the nodes of the path. This node's own data must fit; with compatibility: " +
		"mainline, a trace that is too small for them is inserted with the overflow flag and without data.",
	"options[].trace.loopback": "1/N: set the Loopback flag on the first of every N packets that get the trace, on each " +
		"CPU, at most loopback-rate in a second; 1/100 keeps the copies of a path rarer than its packets (RFC 9322 " +
		"§4.1.1). Nodes with loopback return a copy to this node, which reports and drops it. Only for type " +
		"0x800000, and on packets whose source is this node: in tunnels, and inline on packets that it generates. " +
		"It needs a node id. The size must also hold the nodes of the way back.",
	"options[].trace.loopback, absent": "on no packet",
	"options[].trace.incremental": "Insert an incremental trace: the header has only this node's data, and every node " +
		"that takes part makes the packet grow by its own, up to size, as far as the path's MTU allows. The " +
		"namespace must have incremental, too. Not with bit 22 of type.",
	"options[].trace.incremental, absent": "a pre-allocated one",
	"options[].dex.namespace": "Namespace-ID; its export, under namespaces, sets what this node exports itself; without " +
		"the namespace, nothing. Each Direct Export of a header needs its own.",
	"options[].dex.trace-type": "IOAM-Trace-Type, which fields each node exports: 24 bits, or " +
		"[names](../how-to/trace-a-prefix.md#1-choose-the-fields). Bits 7, 12 to 21 and 23 are refused.",
	"options[].dex.extension-flags": "The optional fields that the option carries: flow-id identifies the flow, " +
		"sequence numbers its packets from 0. With both, a collector can join the exports of all nodes for one " +
		"packet.",
	"options[].dex.flow-id": "The Flow-ID: hash is computed from addresses, ports, protocol and flow label; flow-label " +
		"is the packet's IPv6 flow label; a number is the same for all packets.",
	"options[].dex.option-type": "Option type in the Hop-by-Hop header: 0x11 for options that do not change on the way " +
		"(RFC 9486 §3), 0x31 as other implementations send it. Nodes understand both.",
}

// TraceOption is a trace to insert.
type TraceOption struct {
	Namespace   ioam.NamespaceID `key:"namespace" required:"true"`
	Type        ioam.TraceType   `key:"type" required:"true"`
	Size        DataSize         `key:"size" required:"true"`
	Loopback    Share            `key:"loopback" optional:"true"`
	Incremental bool             `key:"incremental" optional:"true"`
}

// DataSize is the length of a trace's node data list in bytes.
type DataSize int

// TrafficClass is the IPv6 traffic class (RFC 8200 §7).
type TrafficClass uint8

// FlowLabel is the IPv6 flow label, 20 bits (RFC 8200 §6).
type FlowLabel uint32

// ExtensionFlag is a bit of the Extension-Flags of a Direct Export.
type ExtensionFlag uint8

func (e Encapsulation) node(link model.IfIndex) model.Encapsulation {
	out := model.Encapsulation{
		Name:      e.Name,
		Interface: link,
		Match: model.Match{
			Destination:     e.Match.Destination,
			Source:          e.Match.Source,
			NextHeader:      e.Match.NextHeader,
			SourcePort:      e.Match.SourcePort,
			DestinationPort: e.Match.DestinationPort,
			TrafficClass:    (*uint8)(e.Match.TrafficClass),
			FlowLabel:       (*uint32)(e.Match.FlowLabel),
		},
		Flows:     uint32(e.Flows),
		Frequency: e.Frequency,
		Mode:      e.Mode,
		Nested:    e.Nested,
	}
	if e.Budget != nil {
		out.Budget = model.Budget{Packets: uint32(e.Budget.Packets), Octets: uint32(e.Budget.Octets)}
	}
	if e.Tunnel != nil {
		out.TunnelSource, out.TunnelDestination = e.Tunnel.Source, e.Tunnel.Destination
	}
	for _, o := range e.Options {
		var option model.InsertedOption // stays empty, and so invalid, without a kind
		if t := o.Trace; t != nil {
			option.Trace = &model.TraceOption{
				Namespace:   t.Namespace,
				Type:        t.Type,
				Size:        int(t.Size),
				Loopback:    uint32(t.Loopback),
				Incremental: t.Incremental,
			}
		}
		if o.DirectExport != nil {
			option.DirectExport = o.DirectExport.node()
		}
		if o.Proof != nil {
			option.Proof = &model.ProofOption{Namespace: o.Proof.Namespace}
		}
		option.EdgeToEdge = o.EdgeToEdge.node()
		out.Options = append(out.Options, option)
	}
	return out
}

// AddEncapsulation adds a rule after the others.
func (c *Config) AddEncapsulation(e Encapsulation) (*Config, error) {
	if c.encapsulation(e.Name) >= 0 {
		return nil, refuse("encapsulations", fmt.Sprintf("encapsulation %q exists already", e.Name),
			"overwrite it with: waymark route replace, or give the new one another name")
	}
	e.setDefaults()
	return c.edit(func(next *Config) { next.Encapsulations = append(next.Encapsulations, e) })
}

// ReplaceEncapsulation replaces the rule with the same name, or
// adds it after the others.
func (c *Config) ReplaceEncapsulation(e Encapsulation) (*Config, error) {
	i := c.encapsulation(e.Name)
	if i < 0 {
		return c.AddEncapsulation(e)
	}
	e.setDefaults()
	return c.edit(func(next *Config) { next.Encapsulations[i] = e })
}

// setDefaults fills in what a rule that does not come from a file may lack.
func (e *Encapsulation) setDefaults() {
	if e.Frequency == (model.Frequency{}) {
		e.Frequency = model.Frequency{K: 1, N: 1}
	}
	e.Flows = max(e.Flows, 1)
}

// RemoveEncapsulation removes the rule of that name.
func (c *Config) RemoveEncapsulation(name string) (*Config, error) {
	i := c.encapsulation(name)
	if i < 0 {
		return nil, refuse("encapsulations", fmt.Sprintf("there is no encapsulation %q", name), "list them with: waymark route show")
	}
	return c.edit(func(next *Config) { next.Encapsulations = slices.Delete(next.Encapsulations, i, i+1) })
}

// HasEncapsulation reports whether there is a rule of that name.
func (c *Config) HasEncapsulation(name string) bool { return c.encapsulation(name) >= 0 }

func (c *Config) encapsulation(name string) int {
	return slices.IndexFunc(c.Encapsulations, func(e Encapsulation) bool { return e.Name == name })
}

// MarshalJSON writes the encapsulation with the keys of the file, as jsonKey spells them.
func (e Encapsulation) MarshalJSON() ([]byte, error) { return marshalJSON(&e) }

// UnmarshalJSON reads an encapsulation as strictly as the file.
func (e *Encapsulation) UnmarshalJSON(data []byte) error { return decodeFragment(data, e) }

// Insertion is all that an encapsulation inserts, and how often. A selection with an
// insertion needs a complete match: the encapsulation must lack each criterion that the
// selection lacks, except the destination. An absent tunnel source selects any.
type Insertion struct {
	Flows     Share           `key:"flows" default:"1/1"`
	Frequency model.Frequency `key:"frequency" default:"1/1"`
	Budget    *Budget         `key:"budget" optional:"true"`
	Mode      model.Mode      `key:"mode" default:"auto"`
	Tunnel    *Tunnel         `key:"tunnel" optional:"true"`
	Nested    bool            `key:"nested" default:"false"`
	Options   []Option        `key:"options" required:"true"`
}

// matches compares what an encapsulation inserts.
func (i Insertion) matches(e Encapsulation) bool {
	if i.Frequency != e.Frequency || max(i.Flows, 1) != max(e.Flows, 1) || !sameValue(i.Budget, e.Budget) || i.Mode != e.Mode ||
		i.Nested != e.Nested ||
		(i.Tunnel == nil) != (e.Tunnel == nil) ||
		!slices.EqualFunc(i.Options, e.Options, Option.same) {
		return false
	}
	return i.Tunnel == nil || i.Tunnel.Destination == e.Tunnel.Destination &&
		(!i.Tunnel.Source.IsValid() || i.Tunnel.Source == e.Tunnel.Source)
}

func (o Option) same(other Option) bool {
	if !sameValue(o.Trace, other.Trace) || (o.DirectExport == nil) != (other.DirectExport == nil) {
		return false
	}
	if o.DirectExport == nil {
		return true
	}
	flags := func(d *DirectExportOption) (all ExtensionFlag) {
		for _, f := range d.ExtensionFlags {
			all |= f
		}
		return all
	}
	a, b := o.DirectExport, other.DirectExport
	return a.Namespace == b.Namespace && a.TraceType == b.TraceType && a.FlowID == b.FlowID && a.OptionType == b.OptionType &&
		flags(a) == flags(b)
}
