// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// maxExtracted is the longest Hop-by-Hop header that single options are removed from.
const maxExtracted = 512

// isExtractable reports whether some options are removed from the packet's Hop-by-Hop header, and
// others stay (data-plane.md, "Removing options"). A jumbogram says its length in an option
// (RFC 2675 §2).
func (n *Node) isExtractable(p packet) bool {
	shared := slices.ContainsFunc(p.options, func(o ioam.Option) bool { return !n.removable(o) }) || !p.pure
	return shared && slices.ContainsFunc(p.options, n.removable) && !p.behind.marked &&
		len(p.header) <= maxExtracted && p.payloadLength() != 0
}

// extract removes the options whose namespace is to be removed here from the Hop-by-Hop
// header.
func (n *Node) extract(f Frame, p packet) Result {
	result := withoutSome(f, p, p.header, func(o ioam.Option) bool { return o.IsIOAM() && n.removable(o) })
	n.reportExtracted(f, p, &result)
	return result
}

// extractEdges removes the Edge-to-Edge options that are to be removed here from the
// packet's first header, in which something else stays.
func (n *Node) extractEdges(f Frame, p packet) Result {
	var gone destination
	for _, o := range p.behind.options {
		if o.marked {
			gone.options = append(gone.options, o)
		}
	}
	result := withoutSome(f, p, p.behind.header, func(option ioam.Option) bool {
		return slices.ContainsFunc(gone.options, func(o edgeOption) bool { return o.offset == option.Offset })
	})
	result.Edges = n.measure(f, gone, result.Data[len(p.link):], nil)
	return result
}

// withoutSome is a packet whose first header has lost some options. Each other one moves to
// the first place where it is aligned as before.
func withoutSome(f Frame, p packet, from []byte, gone func(ioam.Option) bool) Result {
	header := []byte{from[0], 0}
	for _, option := range others(from) {
		if gone(option) {
			continue
		}
		to := len(header)
		for to%8 != option.Offset%8 {
			to++
		}
		header = append(padded(header, to), byte(option.Type), byte(len(option.Data)))
		header = append(header, option.Data...)
	}
	header = padded(header, (len(header)+7)&^7)
	header[1] = byte(len(header)/8 - 1)

	result := unchanged(f, model.OutcomeOptionsRemoved)
	result.Data = slices.Concat(p.link, p.ip[:ipv6.HeaderLen], header, p.ip[ipv6.HeaderLen+len(from):])
	setPayloadLength(result.Data[len(p.link):], p.payloadLength()-len(from)+len(header))
	return result
}

// reportExtracted adds the record and the postcards of removed options to the packet's
// result. In the record, options that stay are padding.
func (n *Node) reportExtracted(f Frame, p packet, result *Result) {
	v := visit{packet: p, postcard: n.passing(f, p)}
	v.postcard.Role, v.postcard.Ingress, v.postcard.Egress = model.RoleDecapsulating, f.Interface, 0
	v.postcard.HopLimit = p.hopLimit() - 1
	v.postcard.TransitDelay, v.postcard.QueueDepth, v.postcard.BufferOccupancy = ioam.DataUnavailable, ioam.DataUnavailable, ioam.DataUnavailable
	header := bytes.Clone(p.header)
	for _, option := range p.options {
		if !n.removable(option) {
			header[option.Offset] = byte(ioam.OptionPadN)
			continue
		}
		soundModuleOf(option).remove(n, option, &v)
	}
	result.Postcards = v.postcards
	if v.recorded {
		ip := result.Data[len(p.link):]
		result.Record = &Record{
			Time:      f.Time,
			Interface: f.Interface,
			Outcome:   result.Outcome,
			Length:    len(ip),
			Packet:    bytes.Clone(ip[:min(len(ip), RecordPacketSize)]),
			Header:    header,
		}
	}
}
