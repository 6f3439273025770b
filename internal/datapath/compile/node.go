// SPDX-License-Identifier: Apache-2.0

// Package compile turns a node's configuration into a generation: the tables and constants of
// the BPF programs. It writes no map.
package compile

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/model"
)

// maxListedRules is how many rules of an interface are tried one by one; more are
// looked up in the trie. One rule costs less than a lookup.
const maxListedRules = 8

// NoRule ends a chain of rules.
const NoRule = 1<<32 - 1

// Interface is what the programs know about an interface; its slot, and
// whether it forwards fast, are only known when it is attached.
type Interface struct {
	Index    model.IfIndex
	Entry    bpf.ABIInterface
	Device   attach.Device
	strips   bool // some IOAM, where it has no role
	Policies []model.NamespacePolicy
}

// Generation is a configuration as tables; indexes are relative to the start of
// the generation's half.
type Generation struct {
	Node           bpf.ABINodeConfig // common to all programs; the link header and fast differ
	Interfaces     []Interface
	Uppers         []bpf.ABIInterface
	InterfaceHash  PerfectHash
	policies       int // of namespaces, at all edges
	Namespaces     []bpf.ABIIoamNamespace
	NamespaceHash  PerfectHash
	TunnelEnds     TunnelEnds
	Rules          []bpf.ABIRule
	Trie           map[bpf.ABIRuleKey]uint32
	Encapsulations []bpf.ABIEncapsulation
	Exports        Exports
	Measured       measure.Flows
	Proofs         Proofs
	RemovesHeaders uint8 // some packets lose headers, or a tunnel
	// Owners names the encapsulation of each entry of encapsulations.
	Owners []string
}

// Removes reports whether the ingress hook may remove a header from a packet.
func (g *Generation) Removes(in Interface) bool {
	if model.Role(in.Entry.Roles)&model.RoleIngress == 0 {
		return in.strips
	}
	return g.Node.HasDecapsulations > 0 || g.Node.HasRemovals > 0
}

// FillsForStack reports whether the ingress hook fills traces of packets that the stack
// then gets with their headers. In XDP, which runs before receive offload (GRO), segments of one TCP
// flow would get headers that differ, and GRO would reorder them; in tc, the hook fills what GRO has joined.
func (g *Generation) FillsForStack(in Interface) bool {
	return model.Role(in.Entry.Roles)&model.RoleIngress != 0 && len(g.Namespaces) > 0 && !g.Removes(in) && !in.Device.Fast
}

// mayTakeBack reports whether a packet of a measured flow may be dropped after it was
// counted, inside the domain: for what its options are, or because the kernel did not
// finish a change of it.
func (g *Generation) mayTakeBack() bool {
	n := &g.Node
	return n.Measures == 1 &&
		n.Mainline|n.HasProofs|n.TraceFlags|n.AsksLoopback|n.HasDecapsulations|
			n.HasRemovals|n.HasE2e|n.Grows|n.HasEncapsulations|n.InsertsMark != 0
}

// IsCopiedForXDP reports whether native XDP would cost an interface's TCP more than it gives.
// With an XDP program, a veth copies each packet that the stack gets into pages of its own,
// and the other end sends no large packets (GSO). Sockets of this machine count the pages,
// so their receive buffers are full early, and the kernel discards what is in them
// (TcpExtPruneCalled).
func IsCopiedForXDP(in Interface) bool { return in.Device.Veth && !in.Device.Fast }

// TakesOptions sets how many options the stack takes in one header; nil is Linux's
// default.
func (g *Generation) TakesOptions(n *int) {
	most := model.StackOptions
	if n != nil {
		most = *n
	}
	g.Node.StackOptions = uint32(min(most, model.MaxOptionsPerPacket))
}

// Node turns a valid configuration into tables and constants. It computes
// everything that need not be computed per packet.
func Node(cfg model.NodeConfig, nextHops int, deviceOf func(model.IfIndex) attach.Device) (*Generation, error) {
	g := &Generation{
		Trie:       make(map[bpf.ABIRuleKey]uint32),
		Exports:    compileExporting(cfg),
		TunnelEnds: compileTunnelEnds(cfg),
		Measured:   measure.Compile(cfg.Measurement),
		Proofs:     compileProving(cfg),
	}
	g.Node = bpf.ABINodeConfig{
		NodeIdWide:        uint64(cfg.IDWide),
		NodeId:            uint32(cfg.ID),
		TimestampFormat:   uint8(cfg.TimestampFormat),
		Mainline:          bpf.Boolean(cfg.Compatibility == model.CompatibilityMainline),
		HasEncapsulations: bpf.Boolean(len(cfg.Encapsulations) > 0),
		HasBudgets: bpf.Boolean(
			slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool { return e.Budget != model.Budget{} }),
		),
		InsertsInline: bpf.Boolean(slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool {
			return e.Mode != model.ModeEncap
		})),
		Nests:       bpf.Boolean(slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool { return e.Nested })),
		HasRemovals: bpf.Boolean(slices.ContainsFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.Remove })),
		NextHopSets: 1,
	}
	g.TakesOptions(nil)
	g.TunnelEnds.constants(&g.Node)
	g.Exports.constants(&g.Node)
	g.Proofs.constants(&g.Node)
	measures, inserts := hasEdgeToEdge(cfg)
	g.Node.HasE2e, g.Node.InsertsE2e = bpf.Boolean(measures), bpf.Boolean(inserts)
	g.RemovesHeaders = g.Node.HasDecapsulations | g.Node.HasRemovals
	probingConstants(cfg, &g.Node)
	g.Node.Grows = bpf.Boolean(slices.ContainsFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.Incremental }))
	g.Node.Measures = bpf.Boolean(g.Measured.Any())
	if len(cfg.Namespaces) > 0 && cfg.Delays > 0 {
		g.Node.HasDelays, g.Node.DelaySample = 1, cfg.Delays
	}
	g.Node.InsertsMark = bpf.Boolean(g.Measured.InsertsMark())
	var err error
	if g.Node.PostcardRoom, err = rings.PostcardRoom(); err != nil {
		return nil, err
	}
	for _, ns := range cfg.Namespaces {
		out := compileNamespace(ns)
		out.Probing = uint8(probingOf(cfg, ns))
		g.Namespaces = append(g.Namespaces, out)
	}
	own := make(map[model.IfIndex][]model.Encapsulation)
	for _, e := range cfg.Encapsulations {
		own[e.Interface] = append(own[e.Interface], e)
	}
	for _, i := range cfg.Interfaces {
		in := Interface{Index: i.Index, Device: deviceOf(i.Index)}
		in.Entry = compileInterface(i, in.Device)
		g.compileEdge(i, &in)
		if in.Device.Fast {
			g.Node.NextHopSets = nextHopSets(nextHops)
		}
		g.compileRules(cfg, i, own[i.Index], &in.Entry)
		g.Interfaces = append(g.Interfaces, in)
	}
	for _, u := range cfg.Uppers {
		g.Uppers = append(g.Uppers, compileUpper(u))
	}
	g.Node.MayTakeBack = bpf.Boolean(g.mayTakeBack())
	return g, g.findHashes()
}

// RolesOf are an interface's roles as programs have them.
func RolesOf(i model.Interface) uint8 { return compileInterface(i, attach.Device{}).Roles }

func compileInterface(i model.Interface, dev attach.Device) bpf.ABIInterface {
	entry := bpf.ABIInterface{
		Ifindex:         uint32(i.Index),
		InterfaceIdWide: uint32(i.IDWide),
		InterfaceId:     uint16(i.ID),
		Roles:           uint8(i.Roles),
		Boundary:        uint8(i.Boundary),
		FirstRule:       NoRule,
	}
	lacks := uint8(^i.Roles & (model.RoleIngress | model.RoleEgress))
	if i.Strictest() == model.BoundaryDrop {
		entry.Roles |= lacks << bpf.ABIEdgeEDGE_SHIFT
	}
	if i.Boundary != model.BoundaryIgnore {
		entry.Roles |= lacks << bpf.ABIOutsideOUTSIDE_SHIFT
	}
	if i.Strictest() != model.BoundaryIgnore {
		entry.Roles |= lacks << bpf.ABIFilterFILTER_SHIFT
	}
	if len(i.Policies) > 0 && lacks != 0 {
		entry.Boundary |= uint8(bpf.ABIBoundaryBitsBOUNDARY_NAMESPACES)
	}
	if dev.Fast {
		entry.IsVeth = bpf.Boolean(dev.Veth)
		entry.MacHead = binary.NativeEndian.Uint32(dev.Address[:4])
		entry.MacTail = binary.NativeEndian.Uint16(dev.Address[4:])
	}
	return entry
}

// compileEdge notes what an interface asks for where it has no role.
func (g *Generation) compileEdge(i model.Interface, in *Interface) {
	if i.Roles == model.RoleIngress|model.RoleEgress {
		return
	}
	in.strips, in.Policies = i.Strips(), i.Policies
	g.Node.HasEdges |= bpf.Boolean(i.Strictest() == model.BoundaryDrop)
	g.Node.Strips |= bpf.Boolean(in.strips)
	g.Node.HasPolicies |= bpf.Boolean(len(i.Policies) > 0)
	g.policies += len(i.Policies)
}

func compileUpper(u model.Upper) bpf.ABIInterface {
	entry := bpf.ABIInterface{
		Ifindex: uint32(u.Index), InterfaceIdWide: uint32(u.IDWide), InterfaceId: uint16(u.ID), Roles: uint8(u.Roles),
		Upper: uint8(bpf.ABIUpperUPPER_MASTER), IsUnproven: bpf.Boolean(!u.Proven), Slot: NoSlot, FirstRule: NoRule,
	}
	if u.VLAN {
		entry.Upper = uint8(bpf.ABIUpperUPPER_VLAN)
	}
	return entry
}

func (g *Generation) findHashes() (err error) {
	var ids, indexes []uint32
	for _, ns := range g.Namespaces {
		ids = append(ids, ns.Id)
	}
	for _, in := range g.Interfaces {
		indexes = append(indexes, in.Entry.Ifindex)
	}
	for _, u := range g.Uppers {
		indexes = append(indexes, u.Ifindex)
	}
	if g.NamespaceHash, err = findPerfectHash(ids); err != nil {
		return err
	}
	g.InterfaceHash, err = findPerfectHash(indexes)
	return err
}

func compileNamespace(ns model.Namespace) bpf.ABIIoamNamespace {
	out := bpf.ABIIoamNamespace{
		Id:       uint32(ns.ID),
		DataWide: bpf.BigEndian64(ns.DataWide),
		Data:     bpf.BigEndian32(ns.Data),
		Remove:   bpf.Boolean(ns.Remove),
		Export:   uint8(ns.Export),
		Sample:   ns.Sample,
		E2e:      bpf.Boolean(ns.EdgeToEdge),

		Incremental: bpf.Boolean(ns.Incremental),
	}
	compileProof(ns.Proof, &out)
	words := Snapshot(ns.Schema)
	out.SnapshotWords = uint8(len(words) / 4)
	for i := 0; i < len(words); i += 4 {
		out.Snapshot[i/4] = binary.NativeEndian.Uint32(words[i:])
	}
	return out
}

// compileRules arranges the interface's rules in chains, each in the order in
// which rules are tried: longest destination prefix first, then as configured. A
// prefix's chain continues with that of the next shorter prefix that contains it,
// so a single longest-prefix lookup finds all candidates.
func (g *Generation) compileRules(cfg model.NodeConfig, in model.Interface, own []model.Encapsulation, entry *bpf.ABIInterface) {
	if len(own) == 0 {
		return
	}
	insertion := 0 // at most 512 bytes and an IPv6 header: its eighth fits a byte
	slices.SortStableFunc(own, func(a, b model.Encapsulation) int {
		da, db := destination(a), destination(b)
		return cmp.Or(db.Bits()-da.Bits(), da.Addr().Compare(db.Addr()))
	})
	first := uint32(len(g.Rules))
	for i, e := range own {
		rule := compileRule(e.Match)
		rule.Encapsulation = uint32(len(g.Encapsulations))
		rule.Next = NoRule
		insertion = max(insertion, e.Insertion())
		if i+1 < len(own) {
			rule.Next = first + uint32(i) + 1
		}
		g.Rules = append(g.Rules, rule)
		c := compileEncapsulation(cfg, in, e)
		g.Encapsulations = append(g.Encapsulations, c)
		g.Node.InsertsGrowing |= c.HasIncremental
		g.Owners = append(g.Owners, e.Name)
		if rule.HasNextHeader+rule.HasPorts > 0 {
			entry.NeedsUpper = 1
		}
	}
	entry.Insertion, entry.FirstRule = uint8(insertion/8), first
	if len(own) > maxListedRules {
		tree := uint32(len(g.Interfaces))
		entry.HasTrie, entry.FirstRule = 1, tree
		g.compileTrie(tree, own, first)
	}
}

// compileTrie enters the head of each prefix's chain and corrects where chains
// continue: rules are sorted, so equal prefixes are adjacent and shorter ones
// follow.
func (g *Generation) compileTrie(tree uint32, sorted []model.Encapsulation, first uint32) {
	for i := 0; i < len(sorted); {
		prefix := destination(sorted[i])
		end := i
		for end < len(sorted) && destination(sorted[end]) == prefix {
			end++
		}
		next := uint32(NoRule)
		for j := end; j < len(sorted); j++ {
			shorter := destination(sorted[j])
			if shorter.Bits() < prefix.Bits() && shorter.Contains(prefix.Addr()) {
				next = first + uint32(j)
				break
			}
		}
		g.Rules[first+uint32(end)-1].Next = next
		key := bpf.ABIRuleKey{
			PrefixLength: 32 + uint32(prefix.Bits()),
			Tree:         tree,
			Destination:  prefix.Addr().As16(),
		}
		if _, taken := g.Trie[key]; !taken {
			g.Trie[key] = first + uint32(i)
		}
		i = end
	}
}

// destination is the prefix that orders a rule; a rule without one has ::/0.
func destination(e model.Encapsulation) netip.Prefix {
	if !e.Match.Destination.IsValid() {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return e.Match.Destination.Masked()
}

func compileRule(m model.Match) bpf.ABIRule {
	r := bpf.ABIRule{SourcePortTo: 1<<16 - 1, DestinationPortTo: 1<<16 - 1}
	r.Destination, r.DestinationMask = bpf.PrefixWords(m.Destination)
	r.Source, r.SourceMask = bpf.PrefixWords(m.Source)
	if m.NextHeader != nil {
		r.NextHeader, r.HasNextHeader = uint8(*m.NextHeader), 1
	}
	if m.SourcePort != nil && *m.SourcePort != (model.PortRange{}) {
		r.SourcePortFrom, r.SourcePortTo, r.HasPorts = m.SourcePort.From, m.SourcePort.To, 1
	}
	if m.DestinationPort != nil && *m.DestinationPort != (model.PortRange{}) {
		r.DestinationPortFrom, r.DestinationPortTo, r.HasPorts = m.DestinationPort.From, m.DestinationPort.To, 1
	}
	var word, mask uint32
	if m.TrafficClass != nil {
		word |= uint32(*m.TrafficClass) << 20
		mask |= 0xff << 20
	}
	if m.FlowLabel != nil {
		word |= *m.FlowLabel & 0xfffff
		mask |= 0xfffff
	}
	r.ClassLabel, r.ClassLabelMask = bpf.BigEndian32(word), bpf.BigEndian32(mask)
	return r
}

// NoSlot is the slot of an interface without counters.
const NoSlot = 1<<16 - 1
