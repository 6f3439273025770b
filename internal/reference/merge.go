// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// What Linux accepts in one header by default.
const (
	maxStackOptions = 8 // net.ipv6.max_hbh_opts_number
	maxStackPadding = 7
)

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

// merging is how a rule's options get into a packet.
type merging struct {
	hopByHop, destination taking
}

// taking is a header that gets options in front of its own.
type taking struct {
	header   []byte // as it is in the packet; nil: it will be one of their own
	inserted int    // the length of the options
}

// mergingOf finds the headers that take the rule's options; when ok is false, the outcome
// says why they do not (docs/data-plane/encapsulation.md).
func mergingOf(rule *model.Encapsulation, p packet, inline bool) (m merging, outcome model.Outcome, ok bool) {
	edges := 0
	for _, o := range rule.Options {
		if o.EdgeToEdge != nil {
			edges++
		}
	}
	m.hopByHop.inserted, m.destination.inserted = optionsLen(rule, false), optionsLen(rule, true)
	if !inline {
		return m, 0, true
	}
	if outcome, ok := isForRouters(p.header); ok {
		return m, outcome, false
	}
	m.hopByHop.header = p.header // it was parsed, and has no error
	if !m.hopByHop.hasRoom(len(rule.Options) - edges) {
		return m, model.OutcomeEncapSkippedOptions, false
	}
	if edges > 0 && p.nextAfter() == ioam.NextHeaderDestination {
		header, err := ioam.DecodeExtensionHeader(p.ip[ipv6.HeaderLen+len(p.header):])
		if payload := p.payloadLength(); err != nil || !isWhole(header) || payload != 0 && payload < len(p.header)+len(header.Bytes) {
			return m, model.OutcomeEncapSkippedOptions, false
		}
		m.destination.header = header.Bytes
		if len(header.Bytes) > maxDestinationHeader || !m.destination.hasRoom(edges) {
			return m, model.OutcomeEncapSkippedOptions, false
		}
	}
	// what is longer could not be taken apart again
	if edges > 0 && (p.header != nil || m.destination.header != nil) && m.hopByHop.length()+m.destination.length() > maxExtracted {
		return m, model.OutcomeEncapSkippedHBH, false
	}
	return m, 0, true
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

// hasRoom reports whether the header can take some options: nodes of the domain read all of
// it then, and can take it apart again.
func (t taking) hasRoom(options int) bool {
	if t.header == nil || t.inserted == 0 {
		return true
	}
	all := 1 + options + t.countOptions()
	if t.firstOption()+t.growth() > 4+t.inserted {
		all++ // padding between them
	}
	return len(others(t.header))+options <= maxStackOptions && all <= model.MaxOptionsPerHeader &&
		t.firstOption()-2 <= maxStackPadding && t.length() <= maxExtracted
}

// countOptions is how many options, padding included, are in the header from the first one on that
// is no padding.
func (t taking) countOptions() (count int) {
	first := t.firstOption()
	for option := range (ioam.ExtensionHeader{Bytes: t.header}).Options() {
		if option.Offset >= first {
			count++
		}
	}
	return count
}

// firstOption is the offset of the header's first option that is no padding, or its
// length.
func (t taking) firstOption() int {
	if own := others(t.header); len(own) > 0 {
		return own[0].Offset
	}
	return len(t.header)
}

// growth is by how much the header gets longer: its first option moves by the least
// multiple of 8 that makes room.
func (t taking) growth() (by int) {
	if t.inserted == 0 {
		return 0
	}
	const before = 4 // next header, length, padding
	for t.firstOption()+by < before+t.inserted {
		by += 8
	}
	return by
}

// length is the header's, with the options.
func (t taking) length() int { return len(t.header) + t.growth() }

// growth is by how much the rule's options make the packet grow.
func (m merging) growth() int { return m.hopByHop.growth() + m.destination.growth() }

// merge puts the options of a header that was built for them in front of those of the
// packet's own. Everything behind is moved by a multiple of 8, so that the alignment of
// options stays.
func (t taking) merge(built []byte) []byte {
	switch {
	case t.inserted == 0:
		return bytes.Clone(t.header)
	case t.header == nil:
		return built
	}
	first, header := t.firstOption(), bytes.Clone(built[:2])
	for option := range (ioam.ExtensionHeader{Bytes: built}).Options() {
		if !isPadding(option) {
			header = padded(header, option.Offset)
			header = append(append(header, byte(option.Type), byte(len(option.Data))), option.Data...)
		}
	}
	header = padded(header, first+t.growth())
	header = append(header, t.header[first:]...)
	header[0], header[1] = t.header[0], byte(len(header)/8-1)
	return header
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
