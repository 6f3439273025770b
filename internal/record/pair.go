// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/ioam"
)

// Pair counts the packets that one node reported, by the node that reported them next.
type Pair struct {
	Namespace                ioam.NamespaceID
	From, To                 string // names; "" if not known
	FromExporter, ToExporter netip.Addr
	Packets, Lost, Unknown   uint64
}

var pairTable = table[Pair]{
	field("namespace", "", meaningNamespace, func(p *Pair) *ioam.NamespaceID { return &p.Namespace }, number[ioam.NamespaceID]()),
	field("from", "", "The first node's name, if its exporter sent it.", func(p *Pair) *string { return &p.From }, present(textual())),
	field("from_exporter", "", "Address from which its records came. Absent, as is the second one, in the sum of the pairs beyond 4096.", func(p *Pair) *netip.Addr { return &p.FromExporter }, present(address())),
	field("to", "", "The node that reported the packets next, or should have; absent if it is not known.", func(p *Pair) *string { return &p.To }, present(textual())),
	field("to_exporter", "", "Address from which its records came.", func(p *Pair) *netip.Addr { return &p.ToExporter }, present(address())),
	field("packets", "packets", "Packets that the first node reported.", func(p *Pair) *uint64 { return &p.Packets }, number[uint64]()),
	field("lost", "packets", "Of these, those that are known to be lost after it.", func(p *Pair) *uint64 { return &p.Lost }, number[uint64]()),
	field("unknown", "packets", "Of these, those of which that is not known.", func(p *Pair) *uint64 { return &p.Unknown }, number[uint64]()),
}

// text is a line for the pair.
func (p *Pair) text() string {
	if !p.FromExporter.IsValid() {
		return fmt.Sprintf("%12d  packets between further nodes, %d lost, %d unknown\n", p.Packets, p.Lost, p.Unknown)
	}
	return fmt.Sprintf("%12d  packets %s > %s in namespace %d, %d lost, %d unknown\n",
		p.Packets, pairEnd(p.From, p.FromExporter), pairEnd(p.To, p.ToExporter), p.Namespace, p.Lost, p.Unknown)
}

func pairEnd(name string, exporter netip.Addr) string {
	switch {
	case name != "":
		return Printable(name)
	case exporter.IsValid():
		return exporter.String()
	}
	return "?"
}
