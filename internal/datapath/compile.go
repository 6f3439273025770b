// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
)

// maxListedRules is how many rules of an interface are tried one by one; more are
// looked up in the trie. One rule costs less than a lookup.
const maxListedRules = 8

// noRule ends a chain of rules.
const noRule = 1<<32 - 1

// compiledInterface is what the programs know about an interface; its slot, and
// whether it forwards fast, are only known when it is attached.
type compiledInterface struct {
	index    model.IfIndex
	entry    ABIInterface
	device   device
	strips   bool // some IOAM, where it has no role
	policies []model.NamespacePolicy
}

// generation is a configuration as tables; indexes are relative to the start of
// the generation's half.
type generation struct {
	node           ABINodeConfig // common to all programs; the link header and fast differ
	interfaces     []compiledInterface
	uppers         []ABIInterface
	interfaceHash  perfectHash
	policies       int // of namespaces, at all edges
	namespaces     []ABIIoamNamespace
	namespaceHash  perfectHash
	tunnelEnds     tunnelEnds
	rules          []ABIRule
	trie           map[ABIRuleKey]uint32
	encapsulations []ABIEncapsulation
	exporting      exporting
	measuring      measuring
	proving        proving
	removesHeaders uint8 // some packets lose headers, or a tunnel
	// owners names the encapsulation of each entry of encapsulations.
	owners []string
}

// removes reports whether the ingress hook may remove a header from a packet.
func (g *generation) removes(in compiledInterface) bool {
	if model.Role(in.entry.Roles)&model.RoleIngress == 0 {
		return in.strips
	}
	return g.node.HasDecapsulations > 0 || g.node.HasRemovals > 0
}

// fillsForStack reports whether the ingress hook fills traces of packets that the stack
// then gets with their headers. In XDP, it would give segments of one TCP flow headers
// that differ before receive offload (GRO) joins them, which then reorders them; in tc it
// fills what was joined.
func (g *generation) fillsForStack(in compiledInterface) bool {
	return model.Role(in.entry.Roles)&model.RoleIngress != 0 && len(g.namespaces) > 0 && !g.removes(in) && !in.device.fast
}

// mayTakeBack reports whether a packet of a measured flow may be dropped after it was
// counted, inside the domain: for what its options are, or because the kernel did not
// finish a change of it.
func (g *generation) mayTakeBack() bool {
	n := &g.node
	return n.Measures == 1 && n.Mainline|n.HasProofs|n.TraceFlags|n.AsksLoopback|n.HasDecapsulations|n.HasRemovals|n.HasE2e|n.Grows|n.HasEncapsulations|n.InsertsMark != 0
}

// isCopiedForXDP reports whether native XDP would cost an interface's TCP more than it gives.
// With an XDP program, a veth copies each packet that the stack gets into pages of its own,
// and the other end sends no large packets (GSO). Sockets of this machine count the pages,
// so their receive buffers are full early, and the kernel discards what is in them
// (TcpExtPruneCalled).
func isCopiedForXDP(in compiledInterface) bool { return in.device.veth && !in.device.fast }

// takesOptions sets how many options the stack takes in one header; nil is Linux's
// default.
func (g *generation) takesOptions(n *int) {
	most := model.StackOptions
	if n != nil {
		most = *n
	}
	g.node.StackOptions = uint32(min(most, model.MaxOptionsPerPacket))
}

// compile turns a valid configuration into tables and constants. It computes
// everything that need not be computed per packet.
func compile(cfg model.NodeConfig, nextHops int, deviceOf func(model.IfIndex) device) (*generation, error) {
	g := &generation{
		trie:       make(map[ABIRuleKey]uint32),
		exporting:  compileExporting(cfg),
		tunnelEnds: compileTunnelEnds(cfg),
		measuring:  compileMeasuring(cfg.Measurement),
		proving:    compileProving(cfg),
	}
	g.node = ABINodeConfig{
		NodeIdWide:        uint64(cfg.IDWide),
		NodeId:            uint32(cfg.ID),
		TimestampFormat:   uint8(cfg.TimestampFormat),
		Mainline:          boolean(cfg.Compatibility == model.CompatibilityMainline),
		HasEncapsulations: boolean(len(cfg.Encapsulations) > 0),
		HasBudgets:        boolean(slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool { return e.Budget != model.Budget{} })),
		InsertsInline: boolean(slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool {
			return e.Mode != model.ModeEncap
		})),
		Nests:       boolean(slices.ContainsFunc(cfg.Encapsulations, func(e model.Encapsulation) bool { return e.Nested })),
		HasRemovals: boolean(slices.ContainsFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.Remove })),
		NextHopSets: 1,
	}
	g.takesOptions(nil)
	g.tunnelEnds.constants(&g.node)
	g.exporting.constants(&g.node)
	g.proving.constants(&g.node)
	measures, inserts := hasEdgeToEdge(cfg)
	g.node.HasE2e, g.node.InsertsE2e = boolean(measures), boolean(inserts)
	g.removesHeaders = g.node.HasDecapsulations | g.node.HasRemovals
	probingConstants(cfg, &g.node)
	g.node.Grows = boolean(slices.ContainsFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.Incremental }))
	g.node.Measures = boolean(g.measuring.any())
	g.node.InsertsMark = boolean(g.measuring.insertsMark())
	var err error
	if g.node.PostcardRoom, err = postcardRoom(); err != nil {
		return nil, err
	}
	for _, ns := range cfg.Namespaces {
		out := compileNamespace(ns)
		out.Probing = uint8(probingOf(cfg, ns))
		g.namespaces = append(g.namespaces, out)
	}
	own := make(map[model.IfIndex][]model.Encapsulation)
	for _, e := range cfg.Encapsulations {
		own[e.Interface] = append(own[e.Interface], e)
	}
	for _, i := range cfg.Interfaces {
		in := compiledInterface{index: i.Index, device: deviceOf(i.Index)}
		in.entry = compileInterface(i, in.device)
		g.compileEdge(i, &in)
		if in.device.fast {
			g.node.NextHopSets = nextHopSets(nextHops)
		}
		g.compileRules(cfg, i, own[i.Index], &in.entry)
		g.interfaces = append(g.interfaces, in)
	}
	for _, u := range cfg.Uppers {
		g.uppers = append(g.uppers, compileUpper(u))
	}
	g.node.MayTakeBack = boolean(g.mayTakeBack())
	return g, g.findHashes()
}

// rolesOf are an interface's roles as programs have them.
func rolesOf(i model.Interface) uint8 { return compileInterface(i, device{}).Roles }

func compileInterface(i model.Interface, dev device) ABIInterface {
	entry := ABIInterface{
		Ifindex:         uint32(i.Index),
		InterfaceIdWide: uint32(i.IDWide),
		InterfaceId:     uint16(i.ID),
		Roles:           uint8(i.Roles),
		Boundary:        uint8(i.Boundary),
		FirstRule:       noRule,
	}
	lacks := uint8(^i.Roles & (model.RoleIngress | model.RoleEgress))
	if i.Strictest() == model.BoundaryDrop {
		entry.Roles |= lacks << ABIEdgeEDGE_SHIFT
	}
	if i.Boundary != model.BoundaryIgnore {
		entry.Roles |= lacks << ABIOutsideOUTSIDE_SHIFT
	}
	if i.Strictest() != model.BoundaryIgnore {
		entry.Roles |= lacks << ABIFilterFILTER_SHIFT
	}
	if len(i.Policies) > 0 && lacks != 0 {
		entry.Boundary |= uint8(ABIBoundaryBitsBOUNDARY_NAMESPACES)
	}
	if dev.fast {
		entry.IsVeth = boolean(dev.veth)
		entry.MacHead = binary.NativeEndian.Uint32(dev.address[:4])
		entry.MacTail = binary.NativeEndian.Uint16(dev.address[4:])
	}
	return entry
}

// compileEdge notes what an interface asks for where it has no role.
func (g *generation) compileEdge(i model.Interface, in *compiledInterface) {
	if i.Roles == model.RoleIngress|model.RoleEgress {
		return
	}
	in.strips, in.policies = i.Strips(), i.Policies
	g.node.HasEdges |= boolean(i.Strictest() == model.BoundaryDrop)
	g.node.Strips |= boolean(in.strips)
	g.node.HasPolicies |= boolean(len(i.Policies) > 0)
	g.policies += len(i.Policies)
}

func compileUpper(u model.Upper) ABIInterface {
	entry := ABIInterface{
		Ifindex: uint32(u.Index), InterfaceIdWide: uint32(u.IDWide), InterfaceId: uint16(u.ID), Roles: uint8(u.Roles),
		Upper: uint8(ABIUpperUPPER_MASTER), IsUnproven: boolean(!u.Proven), Slot: noSlot, FirstRule: noRule,
	}
	if u.VLAN {
		entry.Upper = uint8(ABIUpperUPPER_VLAN)
	}
	return entry
}

func (g *generation) findHashes() (err error) {
	var ids, indexes []uint32
	for _, ns := range g.namespaces {
		ids = append(ids, ns.Id)
	}
	for _, in := range g.interfaces {
		indexes = append(indexes, in.entry.Ifindex)
	}
	for _, u := range g.uppers {
		indexes = append(indexes, u.Ifindex)
	}
	if g.namespaceHash, err = findPerfectHash(ids); err != nil {
		return err
	}
	g.interfaceHash, err = findPerfectHash(indexes)
	return err
}

func compileNamespace(ns model.Namespace) ABIIoamNamespace {
	out := ABIIoamNamespace{
		Id:       uint32(ns.ID),
		DataWide: be64(ns.DataWide),
		Data:     be32(ns.Data),
		Remove:   boolean(ns.Remove),
		Export:   uint8(ns.Export),
		Sample:   ns.Sample,
		E2e:      boolean(ns.EdgeToEdge),

		Incremental: boolean(ns.Incremental),
	}
	compileProof(ns.Proof, &out)
	words := snapshot(ns.Schema)
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
func (g *generation) compileRules(cfg model.NodeConfig, in model.Interface, own []model.Encapsulation, entry *ABIInterface) {
	if len(own) == 0 {
		return
	}
	insertion := 0 // at most 512 bytes and an IPv6 header: its eighth fits a byte
	slices.SortStableFunc(own, func(a, b model.Encapsulation) int {
		da, db := destination(a), destination(b)
		return cmp.Or(db.Bits()-da.Bits(), da.Addr().Compare(db.Addr()))
	})
	first := uint32(len(g.rules))
	for i, e := range own {
		rule := compileRule(e.Match)
		rule.Encapsulation = uint32(len(g.encapsulations))
		rule.Next = noRule
		insertion = max(insertion, e.Insertion())
		if i+1 < len(own) {
			rule.Next = first + uint32(i) + 1
		}
		g.rules = append(g.rules, rule)
		c := compileEncapsulation(cfg, in, e)
		g.encapsulations = append(g.encapsulations, c)
		g.node.InsertsGrowing |= c.HasIncremental
		g.owners = append(g.owners, e.Name)
		if rule.HasNextHeader+rule.HasPorts > 0 {
			entry.NeedsUpper = 1
		}
	}
	entry.Insertion, entry.FirstRule = uint8(insertion/8), first
	if len(own) > maxListedRules {
		tree := uint32(len(g.interfaces))
		entry.HasTrie, entry.FirstRule = 1, tree
		g.compileTrie(tree, own, first)
	}
}

// compileTrie enters the head of each prefix's chain and corrects where chains
// continue: rules are sorted, so equal prefixes are adjacent and shorter ones
// follow.
func (g *generation) compileTrie(tree uint32, sorted []model.Encapsulation, first uint32) {
	for i := 0; i < len(sorted); {
		prefix := destination(sorted[i])
		end := i
		for end < len(sorted) && destination(sorted[end]) == prefix {
			end++
		}
		next := uint32(noRule)
		for j := end; j < len(sorted); j++ {
			shorter := destination(sorted[j])
			if shorter.Bits() < prefix.Bits() && shorter.Contains(prefix.Addr()) {
				next = first + uint32(j)
				break
			}
		}
		g.rules[first+uint32(end)-1].Next = next
		key := ABIRuleKey{
			PrefixLength: 32 + uint32(prefix.Bits()),
			Tree:         tree,
			Destination:  prefix.Addr().As16(),
		}
		if _, taken := g.trie[key]; !taken {
			g.trie[key] = first + uint32(i)
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

func compileRule(m model.Match) ABIRule {
	r := ABIRule{SourcePortTo: 1<<16 - 1, DestinationPortTo: 1<<16 - 1}
	r.Destination, r.DestinationMask = prefixWords(m.Destination)
	r.Source, r.SourceMask = prefixWords(m.Source)
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
	r.ClassLabel, r.ClassLabelMask = be32(word), be32(mask)
	return r
}

// noSlot is the slot of an interface without counters.
const noSlot = 1<<16 - 1
