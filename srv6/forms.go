// SPDX-License-Identifier: Apache-2.0

package srv6

import (
	"fmt"
	"net/netip"
	"slices"
)

// Mode is how a node gives a packet its segment list; the names are those of `ip -6
// route ... encap seg6 mode`.
type Mode uint8

// The modes of encapsulation (RFC 8986 §5), and insertion, which Linux has.
const (
	ModeEncap   Mode = iota // an outer IPv6 header, all segments in the SRH
	ModeReduced             // the first segment is in the destination only
	ModeInline              // an SRH in the packet itself, whose destination becomes the last segment
)

var modeNames = []string{"encap", "encap.red", "inline"}

// String is the name of the mode.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the inverse of String.
func ParseMode(text string) (Mode, error) {
	if i := slices.Index(modeNames, text); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("%q is no mode; choose encap, encap.red or inline", text)
}

// Compression is how a SID holds several compressed ones (NEXT-C-SID, RFC 9800 §4.1):
// a locator block in front, then SIDs of one length. The zero value is none.
type Compression struct {
	Block uint8 // bits of the locator block
	SID   uint8 // bits of a compressed SID: locator-node and function
}

// Validate reports lengths that no container has.
func (c Compression) Validate() error {
	if c == (Compression{}) {
		return nil
	}
	if c.Block == 0 || c.SID == 0 || c.Block%8 != 0 || c.SID%8 != 0 || int(c.Block)+int(c.SID) > 128 {
		return fmt.Errorf(
			"a locator block of %d bits and SIDs of %d bits are no container; both are multiples of 8, such as 32 and 16",
			c.Block,
			c.SID,
		)
	}
	return nil
}

// shifted are a container's contents on the packet's way: as it is, then without the
// SIDs that were visited, until one is left (RFC 9800 §4.1.1).
func (c Compression) shifted(container netip.Addr) []netip.Addr {
	all := []netip.Addr{container}
	if c == (Compression{}) {
		return all
	}
	block, sid := int(c.Block/8), int(c.SID/8)
	for octets := container.As16(); ; {
		var next [16]byte
		copy(next[:block], octets[:block])
		copy(next[block:], octets[block+sid:])
		if isZero(next[block:min(block+sid, 16)]) { // End-of-Container
			return all
		}
		octets = next
		all = append(all, netip.AddrFrom16(next))
	}
}

func isZero(b []byte) bool { return !slices.ContainsFunc(b, func(o byte) bool { return o != 0 }) }

// Path is a segment list, and how packets come to follow it.
type Path struct {
	Segments    []netip.Addr // in the order of travel
	Mode        Mode
	Compression Compression
	// Popped: the last segment but one removes the SRH (PSP, RFC 8986 §4.16.1).
	Popped bool
	// Destination is where ModeInline's packets go, the last of their segments.
	// Invalid: packets to any destination.
	Destination netip.Addr
}

// Forms are the lists that packets of a path show, in the order of Last, at some node
// on the way. Of ModeInline without a destination, the last segment is left out.
func (p Path) Forms() [][]netip.Addr {
	whole := slices.Clone(p.Segments)
	if p.Mode == ModeInline && p.Destination.IsValid() {
		whole = append(whole, p.Destination)
	}
	slices.Reverse(whole)
	forms := [][]netip.Addr{whole}
	add := func(list []netip.Addr) {
		if len(list) > 0 && !slices.ContainsFunc(forms, func(f []netip.Addr) bool { return slices.Equal(f, list) }) {
			forms = append(forms, list)
		}
	}
	if n := len(p.Segments); p.Mode == ModeReduced {
		rest := whole[:n-1]
		for _, first := range p.Compression.shifted(p.Segments[0]) {
			add(append(slices.Clone(rest), first))
		}
		add(rest)
	}
	if p.Popped && p.Mode != ModeInline {
		for _, last := range p.Compression.shifted(p.Segments[len(p.Segments)-1]) {
			add([]netip.Addr{last})
		}
	}
	return forms
}
