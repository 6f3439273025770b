// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// Proof is the Proof of Transit option of a packet as captured on a link (RFC 9197
// §4.5.1): what the nodes up to there added up. Its JSON names are a contract: they are
// added to, never changed.
type Proof struct {
	Time       instant.Time
	Interface  string // where the packet was seen
	Namespace  ioam.NamespaceID
	Flags      Hex8
	PktID      Hex64
	Cumulative Hex64
	Packet     Packet
}

// Kind is "proof-of-transit".
func (p *Proof) Kind() string { return KindProof }

// proofs declares the fields of a Proof of Transit option.
var proofs = table[*Proof]{
	field("time", "", "When the packet was seen.", func(p *Proof) *instant.Time { return &p.Time }, moment()),
	field(
		"interface",
		"",
		"Name of the interface at which the packet was seen.",
		func(p *Proof) *string { return &p.Interface },
		present(textual()),
	),
	field("namespace", "", meaningNamespace, func(p *Proof) *ioam.NamespaceID { return &p.Namespace }, number[ioam.NamespaceID]()),
	field(
		"flags",
		"",
		"Flags of the option, of which no bit is assigned yet (RFC 9197 §4.5).",
		func(p *Proof) *Hex8 { return &p.Flags },
		hexadecimal[Hex8](2),
	),
	field("pkt_id", "", "PktID: the packet's number.", func(p *Proof) *Hex64 { return &p.PktID }, hexadecimal[Hex64](16)),
	field(
		"cumulative",
		"",
		"Cumulative: what the nodes up to here added up.",
		func(p *Proof) *Hex64 { return &p.Cumulative },
		hexadecimal[Hex64](16),
	),
	field("packet", "", "The packet.", func(p *Proof) *Packet { return &p.Packet }, object(packetTable)),
}

// NewProof is the record of an option.
func NewProof(at time.Time, o ioam.ProofOfTransit, packet Packet) *Proof {
	return &Proof{
		Time: instant.Of(at), Namespace: o.Namespace, Flags: Hex8(o.Flags),
		PktID: Hex64(o.PktID), Cumulative: Hex64(o.Cumulative), Packet: packet,
	}
}

// Text is the option as a line of readable text.
func (p *Proof) Text() string {
	var b strings.Builder
	if !p.Time.IsZero() {
		b.WriteString(p.Time.String() + "  ")
	}
	if p.Interface != "" {
		b.WriteString(Printable(p.Interface) + "  ")
	}
	fmt.Fprintf(&b, "%s, proof of transit, namespace %d, packet 0x%016x, cumulative 0x%016x\n",
		p.Packet, p.Namespace, uint64(p.PktID), uint64(p.Cumulative))
	return b.String()
}

func (p *Proof) about() (ioam.NamespaceID, *Packet) { return p.Namespace, &p.Packet }
