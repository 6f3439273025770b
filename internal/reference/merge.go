// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// What Linux accepts in one header by default.
const (
	maxStackOptions = 8 // net.ipv6.max_hbh_opts_number
	maxStackPadding = 7
)

// maxHopByHop is the longest header that its length field can express (RFC 8200 §4.3).
const maxHopByHop = 8 * 256

// isPadding reports whether an option fills a gap (RFC 8200 §4.2).
func isPadding(o ioam.Option) bool { return o.Type.IsPadding() }

// others are the options of a header that are no padding.
func others(header []byte) (list []ioam.Option) {
	for option := range (ioam.ExtensionHeader{Bytes: header}).Options() {
		if !isPadding(option) {
			list = append(list, option)
		}
	}
	return list
}

// merging is a header of a packet that gets options in front of its own; without header,
// there is none.
type merging struct {
	header   []byte // as it was
	front    int    // the length of the headers that are inserted before it
	inserted int    // the length of the options
}

// mergingOf finds the packet's header that takes the rule's options, if there is one;
// when ok is false, the outcome says why it does not (data-plane.md, egress step 4).
func mergingOf(rule *model.Encapsulation, p packet, inline bool) (m merging, outcome model.Outcome, ok bool) {
	edges := 0
	for _, o := range rule.Options {
		if o.EdgeToEdge != nil {
			edges++
		}
	}
	switch {
	case !inline:
	case p.header != nil && edges > 0: // at most one per packet (RFC 8200 §4.1)
		return merging{}, model.OutcomeEncapSkippedHBH, false
	case p.header != nil:
		m.header = p.header // it was parsed, and has no error
		if outcome, ok := isForRouters(p.header); ok {
			return merging{}, outcome, false
		}
		m.inserted = optionsLen(rule, false)
		return m, model.OutcomeEncapSkippedOptions, m.hasRoom(len(rule.Options), maxHopByHop)
	case edges > 0 && p.nextHeader() == ioam.NextHeaderDestination:
		header, err := ioam.DecodeExtensionHeader(p.ip[ipv6.HeaderLen:])
		if payload := p.payloadLength(); err != nil || !isWhole(header) || payload != 0 && payload < len(header.Bytes) {
			return merging{}, model.OutcomeEncapSkippedOptions, false
		}
		m.header, m.inserted = header.Bytes, optionsLen(rule, true)
		m.front = rule.HopByHopLen()
		return m, model.OutcomeEncapSkippedOptions, m.hasRoom(edges, maxDestinationHeader)
	}
	return merging{}, 0, true
}

// isForRouters reports whether a Hop-by-Hop header has an option for which the packet is
// left as it was sent.
func isForRouters(header []byte) (outcome model.Outcome, ok bool) {
	for _, kind := range []struct {
		option  ioam.OptionType
		outcome model.Outcome
	}{
		{ioam.OptionRouterAlert, model.OutcomeEncapSkippedRouterAlert},
		{ioam.OptionJumbo, model.OutcomeEncapSkippedJumbo},
	} {
		for _, option := range others(header) {
			if option.Type == kind.option {
				return kind.outcome, true
			}
		}
	}
	return 0, false
}

// isWhole reports whether the options of a header can be read to their end.
func isWhole(header ioam.ExtensionHeader) bool {
	count := 0
	for _, err := range header.Options() {
		if count++; err != nil || count > model.MaxOptionsPerHeader {
			return false
		}
	}
	return true
}

// optionsLen is the length of the rule's Edge-to-Edge options, or of its others.
func optionsLen(rule *model.Encapsulation, edges bool) (length int) {
	for _, o := range rule.Options {
		if (o.EdgeToEdge != nil) == edges {
			length += o.Len()
		}
	}
	return length
}

// hasRoom reports whether the header can take some options, and be at most so long.
func (m merging) hasRoom(options, longest int) bool {
	return len(others(m.header))+options <= maxStackOptions && m.firstOption()-2 <= maxStackPadding &&
		len(m.header)+m.moved() <= longest
}

// firstOption is the offset of the header's first option that is no padding, or its
// length.
func (m merging) firstOption() int {
	if own := others(m.header); len(own) > 0 {
		return own[0].Offset
	}
	return len(m.header)
}

// moved is by how much the first option moves in its header: by the least multiple of 8
// that makes room.
func (m merging) moved() (by int) {
	const before = 4 // next header, length, padding
	for m.firstOption()+by < before+m.inserted {
		by += 8
	}
	return by
}

// growth is by how much the rule's options make the packet grow.
func (m merging) growth(rule *model.Encapsulation) int {
	if m.header == nil {
		return rule.HeaderLen()
	}
	return m.front + m.moved()
}

// merge puts the options of the last of some headers in front of those of the packet's own,
// and the others before them. Everything behind is moved by a multiple of 8, so that the
// alignment of options stays.
func merge(p packet, h headers, m merging, payload int) []byte {
	first, last := m.firstOption(), h.bytes[h.last:]
	header := bytes.Clone(last[:2])
	for option := range (ioam.ExtensionHeader{Bytes: last}).Options() {
		if !isPadding(option) {
			header = padded(header, option.Offset)
			header = append(append(header, byte(option.Type), byte(len(option.Data))), option.Data...)
		}
	}
	header = padded(header, first+m.moved())
	header = append(header, m.header[first:]...)
	header[0], header[1] = m.header[0], byte(len(header)/8-1)

	frame := slices.Concat(p.link, p.ip[:ipv6.HeaderLen], h.bytes[:h.last], header, p.ip[ipv6.HeaderLen+len(m.header):])
	ip := frame[len(p.link):]
	ip[6] = byte(h.first)
	setPayloadLength(ip, payload)
	return frame
}

// padded is a header with padding up to an offset (RFC 8200 §4.2).
func padded(header []byte, to int) []byte {
	switch n := to - len(header); n {
	case 0:
		return header
	case 1:
		return append(header, byte(ioam.OptionPad1))
	default:
		return append(append(header, byte(ioam.OptionPadN), byte(n-2)), make([]byte, n-2)...)
	}
}
