// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// policyOf is an interface's policy for an IOAM option.
func policyOf(i *model.Interface, option ioam.Option) model.Boundary {
	if len(option.Data) < 4 || ioam.IOAMType(option.Data[1]) > ioam.IOAMDirectExport {
		return i.Boundary
	}
	return i.PolicyOf(ioam.NamespaceID(uint16(option.Data[2])<<8 | uint16(option.Data[3])))
}

// atEdge applies the policies of an interface without the IOAM role in this
// direction: nothing may leak out of or into the domain (RFC 9486 §4). The packet was
// parsed.
func atEdge(f Frame, p packet, i *model.Interface) Result {
	var found [model.BoundaryIgnore + 1]bool
	for _, option := range p.options {
		found[policyOf(i, option)] = true
	}
	drop := func(outcome model.Outcome) Result {
		result := unchanged(f, outcome)
		result.Verdict = Drop
		return result
	}
	if found[model.BoundaryDrop] {
		return drop(model.OutcomeBoundaryDropped)
	}
	if i.Strictest() != model.BoundaryIgnore {
		behind, unreadable := p.optionsBehind()
		if i.Strictest() == model.BoundaryDrop && (unreadable || p.mayHideHopByHop()) {
			return dropUnproven(f)
		}
		for _, option := range behind {
			found[policyOf(i, option)] = true
		}
	}
	switch {
	case found[model.BoundaryDrop]:
		return drop(model.OutcomeBoundaryDropped)
	case found[model.BoundaryStrip] && p.mayHideHopByHop():
		return dropUnproven(f)
	case found[model.BoundaryStrip]:
		return strip(f, p, i)
	case found[model.BoundaryIgnore]:
		return unchanged(f, model.OutcomeBoundaryIgnored)
	}
	return unchanged(f, model.OutcomeNoIOAM)
}

// optionsBehind are the IOAM options of all Destination Options headers of the packet that
// can be read; some cannot if unreadable is true.
func (p *packet) optionsBehind() (found []ioam.Option, unreadable bool) {
	for _, at := range p.walkBehind().Destinations {
		header, sound := destinationAt(p.ip, at)
		unreadable = unreadable || !sound
		found = append(found, header.options...)
	}
	return found, unreadable
}

// edgeHeader is a Destination Options header as an edge reads it.
type edgeHeader struct {
	bytes   []byte
	options []ioam.Option // of IOAM
	shared  bool          // there are options of others, too
}

// destinationAt reads the header at an offset.
func destinationAt(ip []byte, at int) (h edgeHeader, sound bool) {
	header, err := ioam.DecodeExtensionHeader(ip[at:])
	if err != nil {
		return edgeHeader{}, false
	}
	h.bytes = header.Bytes
	count := 0
	for option, err := range header.Options() {
		if count++; err != nil || count > model.MaxOptionsPerHeader {
			return edgeHeader{}, false
		}
		switch {
		case option.IsIOAM():
			h.options = append(h.options, option)
		case !option.Type.IsPadding():
			h.shared = true
		}
	}
	if len(h.options) > model.MaxOptionsPerPacket {
		return edgeHeader{}, false
	}
	return h, true
}

// strip removes the options whose policy says so, first from the Hop-by-Hop header.
func strip(f Frame, p packet, i *model.Interface) Result {
	gone := func(o ioam.Option) bool { return o.IsIOAM() && policyOf(i, o) == model.BoundaryStrip }
	result := unchanged(f, model.OutcomeBoundaryStripped)
	data, all := p.stripHopByHop(gone)
	p, _, _ = parse(data, f.Link) // what was parsed, and less of it now
	data = p.stripDestination(gone)
	p, _, _ = parse(data, f.Link)
	behind, _ := p.optionsBehind()
	if !all || slices.ContainsFunc(behind, gone) {
		result.Outcome = model.OutcomeBoundaryStripPartial
	}
	result.Data = data
	return result
}

// stripHopByHop returns the frame without some options of the Hop-by-Hop header; all is
// false if they stay.
func (p *packet) stripHopByHop(gone func(ioam.Option) bool) (frame []byte, all bool) {
	switch {
	case !slices.ContainsFunc(p.options, gone):
		return p.frame, true
	case p.pure && !slices.ContainsFunc(p.options, func(o ioam.Option) bool { return !gone(o) }):
		return p.removeHeaders(), true
	case len(p.header) > maxExtracted || p.payloadLength() == 0:
		return p.frame, false
	}
	header := removeOptions(p.header, gone)
	frame = slices.Concat(p.link, p.ip[:ipv6.HeaderLen], header, p.ip[ipv6.HeaderLen+len(p.header):])
	setPayloadLength(frame[len(p.link):], p.payloadLength()-len(p.header)+len(header))
	return frame, true
}

// stripDestination returns the frame without some options of the Destination Options header
// that is the first header, or right after the Hop-by-Hop header.
func (p *packet) stripDestination(gone func(ioam.Option) bool) []byte {
	if p.nextAfter() != ioam.NextHeaderDestination {
		return p.frame
	}
	at := ipv6.HeaderLen + len(p.header)
	h, sound := destinationAt(p.ip, at)
	if !sound || !slices.ContainsFunc(h.options, gone) {
		return p.frame
	}
	payload, length := p.payloadLength(), len(p.header)+len(h.bytes)
	if payload != 0 && length > payload {
		return p.frame
	}
	if p.header == nil && !h.shared && !slices.ContainsFunc(h.options, func(o ioam.Option) bool { return !gone(o) }) {
		whole := *p
		whole.behind.header = h.bytes
		return whole.removeHeaders()
	}
	if length > maxExtracted || payload == 0 {
		return p.frame
	}
	behind := removeOptions(h.bytes, gone)
	frame := slices.Concat(p.link, p.ip[:at], behind, p.ip[at+len(h.bytes):])
	ip := frame[len(p.link):]
	if len(behind) == 0 {
		if p.header == nil {
			ip[6] = h.bytes[0]
		} else {
			ip[ipv6.HeaderLen] = h.bytes[0]
		}
	}
	setPayloadLength(ip, payload-len(h.bytes)+len(behind))
	return frame
}
