// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration of one node: a YAML file that is checked as a
// whole, with every error reported at its line and column. It uses the terms of RFC
// 9197 and RFC 9617 where they exist.
//
// The structs below are the file's only description: their tags carry each
// key, its default and its documentation, from which internal/yamlfile reads and writes files,
// and makes docs/reference/configuration.md. It says which tags there are.
package config

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Config is the configuration of one node.
type Config struct {
	Node               Node                         `key:"node" doc:"The node's identity, the format of its data, and limits."`
	Interfaces         []Interface                  `key:"interfaces" doc:"The interfaces that the node serves. Other interfaces are never touched."`
	Namespaces         []Namespace                  `key:"namespaces" doc:"The IOAM namespaces that the node takes part in (RFC 9197 §4.3). Options of other namespaces are forwarded untouched."`
	Encapsulations     []Encapsulation              `key:"encapsulations" doc:"Which packets get an IOAM header here. Of the rules of an interface that match a packet, the one with the longest destination prefix applies, among equals the first."`
	Decapsulations     []Decapsulation              `key:"decapsulations" doc:"The tunnels that end at this node."`
	TunnelDestinations []netip.Addr                 `key:"tunnel-destinations" absent:"no others" doc:"Tunnel destinations of the IOAM domain besides those under encapsulations and decapsulations. At the domain's edge (an interface without the role ingress whose boundary is drop), packets from outside that are, or may be, in an IPv6-in-IPv6 tunnel to any of all these are dropped; other packets to the same address pass. At most 1024."`
	Sinks              []Sink                       `key:"export" doc:"Sinks for records: traces of removed headers, postcards and flows. \"waymark observe\" shows records without a sink, too."`
	Collectors         []ipfixsink.CollectorAddress `key:"collectors" absent:"not known" doc:"Collectors of the IOAM domain besides those under export, to which other nodes export; each as in export.address. Packets to any of all these never get an IOAM header here, whatever their sender (RFC 9326 §3.1.2). [] says that there are no others."`
	Measurement        *Measurement                 `key:"measurement" absent:"the defaults of its keys" doc:"How the SRv6 flows under flows are marked and counted (alternate marking, RFC 9341)."`
	Names              []NodeNames                  `key:"names" absent:"no others" doc:"Names of other nodes and their interfaces, by the ids that they write into packets: whatever shows a node then shows its name. One list may serve all nodes; what it says of this node itself is not used. At most 4096."`
	Flows              []Flow                       `key:"flows" absent:"none" doc:"The SRv6 flows whose loss and delay are measured."`
	Stamp              *Stamp                       `key:"stamp" absent:"no reflector" doc:"A STAMP reflector in the agent (RFC 8762, RFC 8972): other nodes measure delays with it, and ask it what this node counted of measured flows."`
	Responders         []Responder                  `key:"responders" absent:"none" doc:"Responders in other protocols than STAMP, for nodes that ask what this one counted of measured flows, or measure delays, in these."`
	Trace              *Trace                       `key:"path-trace" was:"trace" absent:"probes are not answered" doc:"Answers probes of \"waymark trace\" that are addressed to this node, with the trace that they came with."`
	Probes             *Probes                      `key:"probes" absent:"no probes are sent" doc:"Probes to other nodes that never stop, in many flows: they show all equal paths, keep round trips and losses of each, and name the hop after which probes vanish."`
	Metrics            Metrics                      `key:"metrics" doc:"Counters for Prometheus."`
	History            *History                     `key:"history" absent:"the defaults of its keys" doc:"What the agent keeps of the last hour: paths between prefixes, the times of each hop, losses."`
	Strict             bool                         `key:"strict" default:"false" doc:"When true, an interface that does not exist is an error. When false, it is served as soon as it appears."`

	source  *yamlfile.Source
	renamed Faults
}

// Renamed are keys of the file that have the name that they had before. They are accepted, and
// a user should be warned.
func (c *Config) Renamed() Faults { return c.renamed }

// Node is the identity of the node and the profile it follows.
type Node struct {
	Name            string               `key:"name" absent:"the host's name" doc:"The node's name in records, in what it exports, and wherever a person reads. The flag --node-name of waymark agent run goes before it."`
	Mode            NodeMode             `key:"mode" default:"full" doc:"With full, the node does what the rest of the file says. With observe, it changes no packet: it inserts, fills, removes, marks, copies and drops nothing, forwards nothing itself, and only counts what passes its interfaces, at the tc hooks; the rest of the file is checked as usual. What touches no packet of others works as with full: probes, path-trace, stamp, responders, queue-delay and kernel-events. For a first deployment, before full."`
	ReadGroup       string               `key:"read-group" absent:"root alone" doc:"Members of this group, which is in /etc/group, may ask the agent and change no configuration: status, observe, top, events and others that only read, on a socket of its own. They can make the node produce more records. Records show addresses and ports of packets, so choose who is in it."`
	ID              *ioam.NodeID         `key:"id" absent:"the kernel's net.ipv6.ioam6_id, followed when it changes" doc:"Node id of trace field 0 (RFC 9197 §4.4.2.1)."`
	IDWide          *ioam.NodeIDWide     `key:"id-wide" absent:"the kernel's net.ipv6.ioam6_id_wide, followed when it changes" doc:"Node id of trace field 8 (RFC 9197 §4.4.2.9)."`
	TimestampFormat ioam.TimestampFormat `key:"timestamp-format" default:"posix" doc:"Format of the timestamps (RFC 8877): posix is seconds and microseconds of UTC; ptp is seconds and nanoseconds of TAI; ntp is seconds since 1900 of UTC and a binary fraction."`
	NextHops        NextHops             `key:"next-hops" default:"16384" doc:"Number of destinations whose next hop each CPU remembers, for interfaces that forward fast; 64 bytes each. Rounded up to a power of two."`
	FlowSeed        FlowSeed             `key:"flow-seed" default:"0x5741594d41524b36" doc:"Seed of the hash that makes Flow-IDs and selects flows. Use one value in the whole IOAM domain; another value selects other flows."`
	Flows           FlowEntries          `key:"flows" default:"4096" doc:"Number of flows that each CPU keeps for export: aggregate and export: sample. When there are more, one is replaced and exported early."`
	ExportInterval  yamlfile.Period      `key:"export-interval" default:"10s" doc:"How often flows are exported, at least 1s."`
	ExportLimit     Share                `key:"export-limit" default:"1/100" doc:"1/N: each interface exports at most one postcard, or flow that is replaced before its interval ends, for every N packets that it sees (RFC 9326 §3.1.2). Exports beyond the limit are suppressed and counted. Flows at the end of their interval are not limited by it."`
	ExportRate      ExportRate           `key:"export-rate" default:"10000" doc:"Maximum number of postcards and flows per second that the node exports. Those beyond it are suppressed and counted, also flows at the end of their interval."`
	LoopbackLimit   Share                `key:"loopback-limit" default:"1/100" doc:"1/N: each interface returns at most one copy of a packet with the Loopback flag for every N packets that it sees (RFC 9322 §4.2); what 64 copies cost can be saved up. Copies beyond the limit are suppressed and counted."`
	LoopbackRate    LoopbackRate         `key:"loopback-rate" default:"100" doc:"Maximum number of copies per second that the node returns, and of packets per second on which it sets the Loopback flag. Both are counted apart. Those beyond it are suppressed and counted."`
	Delays          Delays               `key:"delays" default:"none" doc:"1/N, such as 1/16: count delays of packets with times in histograms (GET /v1/delays and metrics): of every packet what its traces say where they are removed, and how long this node held it, if the option asks for the transit delay; of other packets, how long this node held one in N. none counts nothing. It takes 603 KiB for each CPU."`
	KernelEvents    bool                 `key:"kernel-events" default:"false" doc:"Also make records of the traces that the kernel's own IOAM fills, on interfaces with net.ipv6.conf.NAME.ioam6_enabled (Linux 6.9 or newer): the node data as they leave this node, without the packet."`
	QueueDelay      bool                 `key:"queue-delay" default:"false" doc:"Measure how long packets wait in the queues of the served interfaces, for metrics (Linux 6.6 or newer). It costs about 6% of what the stack forwards. \"waymark queue\" measures as long as it runs, whatever this says."`
	ReceiveOffload  bool                 `key:"receive-offload" default:"true" doc:"Whether a node after this one may join received packets (GRO) while they have IOAM of this one, which reorders segments of TCP whose headers differ. False says that none does: all forward fast in XDP, or have GRO off. Then waymark doctor leaves out the hint order_at_risk about them; nothing else depends on it."`
	Compatibility   model.Compatibility  `key:"compatibility" default:"default" doc:"With default, the node writes real values where it knows them. With mainline, it writes byte for byte what the Linux kernel writes, and drops the malformed options that the kernel drops."`
}

// Interface is one interface that the node serves.
type Interface struct {
	Name        string                `key:"name" required:"true" doc:"The interface's name."`
	Description string                `key:"description" absent:"the kernel's ifalias" doc:"What the interface is for. Collectors get it with the name."`
	ID          *ioam.InterfaceID     `key:"id" absent:"the kernel's net.ipv6.conf.NAME.ioam6_id, followed when it changes" doc:"Interface id of trace field 1 (RFC 9197 §4.4.2.2)."`
	IDWide      *ioam.InterfaceIDWide `key:"id-wide" absent:"the kernel's net.ipv6.conf.NAME.ioam6_id_wide, followed when it changes" doc:"Interface id of trace field 9 (RFC 9197 §4.4.2.10)."`
	Role        []model.Role          `key:"role" default:"[]" doc:"The directions in which the interface belongs to the IOAM domain: ingress accepts IOAM from the link, egress sends it to the link. Without either, the interface is the domain's edge."`
	Boundary    Boundary              `key:"boundary" default:"drop" doc:"What happens to IOAM in a direction that is not in role, in Hop-by-Hop and Destination Options headers: drop drops the packet (and one that cannot be read far enough to prove that it has none), strip removes the IOAM, and the header if it holds nothing else, ignore forwards the packet untouched. A mapping has policies for single namespaces, too: {default: drop, namespaces: {123: ignore}}."`
	Attach      Attach                `key:"attach" default:"auto" doc:"The hook for arriving packets; auto is the first that kernel and driver support of tcx, clsact, xdp where traces are filled for the stack, of veths that do not forward fast, and, before Linux 6.3, of interfaces that do, else of xdp, tcx, clsact."`
	Place       model.Place           `key:"place" default:"first" doc:"Where the programs stand among those of others in tcx or clsact, at both hooks: first, last, \"before NAME\" or \"after NAME\" with the name of a BPF program as bpftool shows it. While no program has this name, they are first. When another program takes this place, the agent takes it again, after a longer wait each time."`
	Forwarding  Forwarding            `key:"forwarding" default:"stack" doc:"How arriving packets are forwarded: stack is the kernel's network stack. fast forwards ordinary packets before the stack sees them, past netfilter, traffic control and IPsec policies; all others go to the stack. In XDP the queue depth is not known, so compatibility: mainline needs attach: tcx or clsact with it."`
}

// Namespace is one IOAM namespace that the node takes part in.
type Namespace struct {
	ID              ioam.NamespaceID `key:"id" required:"true" doc:"Namespace-ID (RFC 9197 §4.3)."`
	Data            Data             `key:"data" default:"0xffffffff" doc:"Namespace data of trace field 5; all-ones is \"not available\"."`
	DataWide        DataWide         `key:"data-wide" default:"0xffffffffffffffff" doc:"Namespace data of trace field 10; all-ones is \"not available\"."`
	Schema          *Schema          `key:"schema" absent:"no snapshot" doc:"The opaque state snapshot that the node adds (trace bit 22, RFC 9197 §4.4.2.13)."`
	Remove          bool             `key:"remove" default:"false" doc:"Remove inline options of this namespace (traces, Direct Exports, proofs of transit, Edge-to-Edge) on receipt: they end at this node."`
	Export          model.ExportMode `key:"export" default:"none" doc:"What this node exports for packets with a Direct Export option of this namespace (RFC 9326): every makes a postcard for every packet; aggregate adds packets to their flow, which is exported every export-interval; sample does both, with a postcard for every n-th packet: the same packets at all nodes if they carry a Sequence Number."`
	Sample          Sample           `key:"sample" absent:"no sampling" doc:"The n of export: sample, where it is required."`
	Proof           *Proof           `key:"pot" absent:"proofs pass unchanged" doc:"The proof of transit of this namespace (RFC 9197 §4.5, POT-Type 0): this node updates the option of arriving packets, and the last node of the path verifies it. At most 16 namespaces."`
	EdgeToEdge      bool             `key:"e2e" default:"false" doc:"Measure the flows whose Edge-to-Edge options (RFC 9197 §4.6) of this namespace end at this node, which decapsulates them or has remove: packets that are lost, duplicated or reordered, and their one-way delay, every export-interval."`
	Loopback        bool             `key:"loopback" default:"false" doc:"Return a copy of each packet that arrives with a trace of this namespace and type 0x800000 that has the Loopback flag to the packet's source, within loopback-limit and loopback-rate (RFC 9322 §4.2). The copy ends with the IOAM options; the packet goes on. Of packets with an incremental trace, only if the namespace has incremental, too."`
	TerminateActive bool             `key:"terminate-active" default:"false" doc:"Where this node is to remove a trace of this namespace that has the Active flag, at the end of a tunnel or by remove, report the packet and drop it, whatever else its headers hold (RFC 9322 §5). Without it, such a packet goes on like any other."`
	Incremental     bool             `key:"incremental" default:"false" doc:"Let packets with an incremental trace of this namespace (RFC 9197 §4.4) grow by this node's data where they leave it. Set it only inside of a domain whose nodes agree to it, as RFC 8200 §4 forbids it elsewhere. Without it, such traces pass unchanged."`
}

// Schema is the opaque state snapshot of a namespace.
type Schema struct {
	ID   ioam.SchemaID `key:"id" required:"true" doc:"Schema ID."`
	Data string        `key:"data" required:"true" doc:"The snapshot's content; padded with zeros to a multiple of 4 bytes on the wire."`
}

// Encapsulation is one rule that adds IOAM to packets.
type Encapsulation struct {
	Name      string          `key:"name" required:"true" doc:"The rule's name, unique in the node."`
	Interface string          `key:"interface" required:"true" doc:"The egress interface; it must be named in interfaces."`
	Match     Match           `key:"match" doc:"The packets that get the header; absent criteria match everything."`
	Flows     Share           `key:"flows" default:"1/1" doc:"1/N: only packets of one in N flows, selected by the flow hash. All packets of a flow are selected, or none."`
	Frequency model.Frequency `key:"frequency" default:"1/1" doc:"K/N: the first K of every N matching packets of the selected flows; a percentage is the smallest such fraction, so 10% is 1/10. Each CPU takes 64 numbers at a time, so with several CPUs a count may differ from K/N by at most 64 packets for each of them; what one CPU sees is exact."`
	Budget    *Budget         `key:"budget" absent:"no limit" doc:"The most that the rule adds, as a share of what leaves the interface."`
	Mode      model.Mode      `key:"mode" default:"auto" doc:"inline puts the header after the packet's own IPv6 header; encap puts an outer IPv6 header and the header in front; auto is inline for packets that this node generates and encap for packets that it forwards, as RFC 8200 requires; inline, too, for packets that have segments left in a Routing header (SRv6), which a tunnel would bypass: encap leaves them alone."`
	Tunnel    *Tunnel         `key:"tunnel" absent:"no tunnel" doc:"The outer header of modes encap and auto."`
	Nested    bool            `key:"nested" default:"false" doc:"Also for packets that arrive with IOAM, as those of another domain around this one: a tunnel goes around them, options inserted inline go into their header. Without it, of packets with IOAM only those that this node generates get more. Match narrowly: each node with such a rule adds to what the others added."`
	Options   []Option        `key:"options" required:"true" doc:"The IOAM options to insert, 1 to 9."`
}

// Budget is the most that an encapsulation adds to what leaves its interface.
type Budget struct {
	Packets Percent `key:"packets" absent:"no limit" doc:"Share of the interface's packets that get the header."`
	Octets  Percent `key:"octets" absent:"no limit" doc:"Octets that the rule adds, as a share of the octets of the interface's frames."`
}

// Match selects packets.
type Match struct {
	Destination     netip.Prefix     `key:"destination" absent:"any" doc:"IPv6 destination prefix."`
	Source          netip.Prefix     `key:"source" absent:"any" doc:"IPv6 source prefix."`
	NextHeader      *ioam.NextHeader `key:"next-header" absent:"any" doc:"Upper-layer protocol after all extension headers: a number, or one of tcp, udp, icmpv6, sctp, dccp, udplite, ipv6, gre, esp, none."`
	SourcePort      *model.PortRange `key:"source-port" absent:"any" doc:"A port, or a range FROM-TO. Only TCP, UDP, UDP-Lite, SCTP and DCCP packets have ports."`
	DestinationPort *model.PortRange `key:"destination-port" absent:"any" doc:"As source-port."`
	TrafficClass    *TrafficClass    `key:"traffic-class" absent:"any" doc:"The IPv6 traffic class, all 8 bits."`
	FlowLabel       *FlowLabel       `key:"flow-label" absent:"any" doc:"The IPv6 flow label."`
}

// Tunnel is the outer IPv6 header of an encapsulation.
type Tunnel struct {
	Source      netip.Addr `key:"source" absent:"the address from which the kernel would send to destination, followed when routes and addresses change" doc:"Source address of the outer header: an address of this node, not a link-local one."`
	Destination netip.Addr `key:"destination" required:"true" doc:"Destination address of the outer header: the node that decapsulates; not this node."`
}

// Option is one IOAM option to insert: a trace, a Direct Export, a proof or Edge-to-Edge.
type Option struct {
	Trace        *TraceOption        `key:"trace" absent:"another kind instead" doc:"A trace, pre-allocated or incremental (RFC 9197 §4.4)."`
	DirectExport *DirectExportOption `key:"dex" absent:"another kind instead" doc:"A Direct Export (RFC 9326): nodes export their data about the packet instead of writing it into the packet."`
	Proof        *ProofOption        `key:"pot" absent:"another kind instead" doc:"A Proof of Transit (RFC 9197 §4.5): every node of the path adds to it, and the last one verifies that all have."`
	EdgeToEdge   *EdgeToEdgeOption   `key:"e2e" absent:"another kind instead" doc:"An Edge-to-Edge option (RFC 9197 §4.6), in a Destination Options header: the decapsulating node measures with it what became of the packets of each flow."`
}

// DirectExportOption is a Direct Export to insert.
type DirectExportOption struct {
	Namespace      ioam.NamespaceID   `key:"namespace" required:"true" doc:"Namespace-ID; its export, under namespaces, sets what this node exports itself; without the namespace, nothing. Each Direct Export of a header needs its own."`
	TraceType      ioam.TraceType     `key:"trace-type" required:"true" doc:"IOAM-Trace-Type, which fields each node exports: 24 bits, or [names](../how-to/trace-a-prefix.md#1-choose-the-fields). Bits 7, 12 to 21 and 23 are refused."`
	ExtensionFlags []ExtensionFlag    `key:"extension-flags" default:"[]" doc:"The optional fields that the option carries: flow-id identifies the flow, sequence numbers its packets from 0. With both, a collector can join the exports of all nodes for one packet."`
	FlowID         model.FlowIDSource `key:"flow-id" default:"hash" doc:"The Flow-ID: hash is computed from addresses, ports, protocol and flow label; flow-label is the packet's IPv6 flow label; a number is the same for all packets."`
	OptionType     ioam.OptionType    `key:"option-type" default:"0x11" doc:"Option type in the Hop-by-Hop header: 0x11 for options that do not change on the way (RFC 9486 §3), 0x31 as other implementations send it. Nodes understand both."`
}

// TraceOption is a trace to insert.
type TraceOption struct {
	Namespace   ioam.NamespaceID `key:"namespace" required:"true" doc:"Namespace-ID. If it is not in namespaces, this node does not fill the trace and leaves that to other nodes, as Linux does."`
	Type        ioam.TraceType   `key:"type" required:"true" doc:"IOAM-Trace-Type, which fields each node writes: 24 bits, or [names](../how-to/trace-a-prefix.md#1-choose-the-fields). Bits 12 to 21 and 23 are refused."`
	Size        DataSize         `key:"size" required:"true" doc:"Bytes of node data to pre-allocate, or that an incremental trace may grow to: the data of one node, by type, times the nodes of the path. This node's own data must fit; with compatibility: mainline, a trace that is too small for them is inserted with the overflow flag and without data."`
	Loopback    Share            `key:"loopback" absent:"on no packet" doc:"1/N: set the Loopback flag on the first of every N packets that get the trace, on each CPU, at most loopback-rate in a second; 1/100 keeps the copies of a path rarer than its packets (RFC 9322 §4.1.1). Nodes with loopback return a copy to this node, which reports and drops it. Only for type 0x800000, and on packets whose source is this node: in tunnels, and inline on packets that it generates. It needs a node id. The size must also hold the nodes of the way back."`
	Incremental bool             `key:"incremental" absent:"a pre-allocated one" doc:"Insert an incremental trace: the header has only this node's data, and every node that takes part makes the packet grow by its own, up to size, as far as the path's MTU allows. The namespace must have incremental, too. Not with bit 22 of type."`
}

// Decapsulation is a tunnel that ends at this node.
type Decapsulation struct {
	TunnelDestination netip.Addr     `key:"tunnel-destination" required:"true" doc:"Destination address of the outer header. No tunnel device is needed."`
	Sources           []netip.Prefix `key:"sources" absent:"any" doc:"Prefixes of accepted outer source addresses, 1 to 64: those of the encapsulating nodes. Packets from other sources are not decapsulated (decap_refused_source): this node's kernel, to which they are addressed, then discards them, unless it has a tunnel of its own for them."`
	Bare              *bool          `key:"bare" absent:"true with sources, else false" doc:"Whether packets without IOAM of a namespace of this node are decapsulated. If not (decap_refused_bare), the kernel discards them, as those from other sources. true without sources lets any sender that reaches the tunnel's end send packets into the network as if from here."`
}

// Metrics is where counters are served.
type Metrics struct {
	Listen Listen `key:"listen" default:"[::1]:9598" doc:"Address and port of the HTTP server of /metrics and /healthz; none serves nothing."`
}

// Data is the namespace data of trace field 5.
type Data uint32

// DataWide is the namespace data of trace field 10.
type DataWide uint64

// DataSize is the length of a trace's node data list in bytes.
type DataSize int

// TrafficClass is the IPv6 traffic class (RFC 8200 §7).
type TrafficClass uint8

// FlowLabel is the IPv6 flow label, 20 bits (RFC 8200 §6).
type FlowLabel uint32

// Attach is the hook that takes arriving packets: auto, xdp, tcx or clsact.
type Attach string

// NodeMode is what a node may do with packets.
type NodeMode string

// The modes of a node.
const (
	ModeFull    NodeMode = "full"
	ModeObserve NodeMode = "observe" // change none
)

// Forwarding is how packets are forwarded.
type Forwarding string

// The ways to forward.
const (
	ForwardingStack Forwarding = "stack"
	ForwardingFast  Forwarding = "fast"
)

// NextHops is a number of destinations to remember.
type NextHops int

// FlowSeed is the seed of the flow hash.
type FlowSeed uint64

// FlowEntries is how many flows each CPU keeps.
type FlowEntries int

// ExportRate is a number of exports per second.
type ExportRate uint32

// Share is the N of 1/N.
type Share uint32

// Delays is the N of 1/N packets whose delay is counted, 0 for none.
type Delays uint32

// LoopbackRate is a number of copies per second.
type LoopbackRate uint32

// Sample is the n of every n-th packet, 0 for no sampling.
type Sample uint32

// ExtensionFlag is a bit of the Extension-Flags of a Direct Export.
type ExtensionFlag uint8

// maxNextHops is 64 MiB for each CPU.
const maxNextHops = 1 << 20

// Listen is an address and port to listen on, or ListenNone.
type Listen string

// ListenNone serves nothing.
const ListenNone Listen = "none"
