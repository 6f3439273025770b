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

// canMerge reports whether the packet's Hop-by-Hop header can take the rule's options;
// otherwise, the outcome says why not (data-plane.md, egress step 4). A parsed header has no
// error.
func canMerge(rule *model.Encapsulation, p packet) (outcome model.Outcome, ok bool) {
	if insertsEdge(rule) {
		return model.OutcomeEncapSkippedHBH, false
	}
	own := others(p.header)
	for _, kind := range []struct {
		option  ioam.OptionType
		outcome model.Outcome
	}{
		{ioam.OptionRouterAlert, model.OutcomeEncapSkippedRouterAlert},
		{ioam.OptionJumbo, model.OutcomeEncapSkippedJumbo},
	} {
		for _, option := range own {
			if option.Type == kind.option {
				return kind.outcome, false
			}
		}
	}
	tooMany := len(own)+len(rule.Options) > maxStackOptions
	if tooMany || p.firstOption()-2 > maxStackPadding || len(p.header)+mergedGrowth(rule, p) > maxHopByHop {
		return model.OutcomeEncapSkippedOptions, false
	}
	return 0, true
}

// firstOption is the offset of the header's first option that is no padding, or its
// length.
func (p *packet) firstOption() int {
	if own := others(p.header); len(own) > 0 {
		return own[0].Offset
	}
	return len(p.header)
}

// mergedGrowth is by how much the packet grows: the first option moves by the least
// multiple of 8 that makes room.
func mergedGrowth(rule *model.Encapsulation, p packet) int {
	const before = 4 // next header, length, padding
	end := before
	for _, o := range rule.Options {
		end += o.Len()
	}
	growth := 0
	for p.firstOption()+growth < end {
		growth += 8
	}
	return growth
}

// merge puts the options of a header in front of those of the packet's own. Everything
// after them is moved by a multiple of 8, so that the alignment of options stays.
func merge(p packet, h headers, growth, payload int) []byte {
	first := p.firstOption()
	header := bytes.Clone(h.bytes[:2])
	for option := range (ioam.ExtensionHeader{Bytes: h.bytes}).Options() {
		if !isPadding(option) {
			header = padded(header, option.Offset)
			header = append(append(header, byte(option.Type), byte(len(option.Data))), option.Data...)
		}
	}
	header = padded(header, first+growth)
	header = append(header, p.header[first:]...)
	header[0], header[1] = p.header[0], byte(len(header)/8-1)

	frame := append([]byte{}, p.link...)
	frame = append(frame, p.ip[:ipv6.HeaderLen]...)
	frame = append(frame, header...)
	frame = append(frame, p.ip[ipv6.HeaderLen+len(p.header):]...)
	setPayloadLength(frame[len(p.link):], payload)
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
