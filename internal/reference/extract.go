// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// maxExtracted is the length of the longest headers that single options are removed from.
const maxExtracted = 512

// removesWhole reports whether all headers that were read are removed: they hold nothing
// else. Without IOAM, a Hop-by-Hop header is not this node's to remove.
func (n *Node) removesWhole(p packet) bool {
	return !n.keepsHopByHop(p) && !p.behind.shared && !p.isFollowed()
}

// keepsHopByHop reports whether something stays in the Hop-by-Hop header, if there is one.
func (n *Node) keepsHopByHop(p packet) bool {
	return p.header != nil && (!p.pure || len(p.options) == 0) ||
		slices.ContainsFunc(p.options, func(o ioam.Option) bool { return !n.removable(o) })
}

// isExtractable reports whether some options are removed from the headers that were read, and
// others stay (docs/data-plane/ingress.md#removing-options). A jumbogram says its length in an option
// (RFC 2675 §2).
func (n *Node) isExtractable(p packet) bool {
	return (n.keepsHopByHop(p) || p.behind.shared) && p.headersLen() <= maxExtracted && p.payloadLength() != 0
}

// isRemovable reports whether options that are inserted inline, Edge-to-Edge options among
// them, can be removed from the packet again (docs/data-plane/encapsulation.md#removable).
func (n *Node) isRemovable(p packet, edges bool) bool {
	if _, sound := p.check(n.config.Compatibility); !sound || p.header != nil && p.isFollowed() {
		return false
	}
	if _, _, sound := n.destinationOf(p); !sound {
		return false
	}
	if edges && p.nextAfter() == ioam.NextHeaderDestination {
		at := ipv6.HeaderLen + len(p.header)
		return len(p.ip) < at+8 || ioam.NextHeader(p.ip[at]) != ioam.NextHeaderHopByHop
	}
	return true
}

// extract removes the options whose namespace is to be removed here from the headers that
// were read. A header that loses none stays as it is, and one that would hold only padding
// is removed.
func (n *Node) extract(f Frame, p packet) Result {
	hopByHop := bytes.Clone(p.header)
	if slices.ContainsFunc(p.options, n.removable) {
		hopByHop = removeOptions(p.header, func(o ioam.Option) bool { return o.IsIOAM() && n.removable(o) })
	}
	gone := destination{options: slices.DeleteFunc(slices.Clone(p.behind.options), func(o edgeOption) bool { return !o.marked })}
	behind := removeOptions(p.behind.header, func(option ioam.Option) bool {
		return slices.ContainsFunc(gone.options, func(o edgeOption) bool { return o.offset == option.Offset })
	})
	first := ioam.NextHeaderHopByHop
	switch {
	case len(hopByHop) == 0:
		first = ioam.NextHeaderDestination
	case len(behind) == 0:
		hopByHop[0] = byte(p.nextAfter())
	}

	result := unchanged(f, model.OutcomeOptionsRemoved)
	result.Data = slices.Concat(p.link, p.ip[:ipv6.HeaderLen], hopByHop, behind, p.ip[ipv6.HeaderLen+p.headersLen():])
	ip := result.Data[len(p.link):]
	ip[6] = byte(first)
	setPayloadLength(ip, p.payloadLength()-p.headersLen()+len(hopByHop)+len(behind))
	result.Edges = n.measure(f, gone, ip, nil)
	reported := n.removable
	if n.isProbe(p, removeInline) { // what stays goes no further
		reported = func(ioam.Option) bool { return true }
	}
	n.reportOptions(f, p, reported, &result)
	return result
}

// removeOptions is a header that has lost some options. Each other one moves to the first place
// where it is aligned as before; if there is none, nothing is left of the header.
func removeOptions(from []byte, gone func(ioam.Option) bool) []byte {
	kept := slices.DeleteFunc(others(from), gone)
	if len(kept) == 0 {
		return nil
	}
	header := []byte{from[0], 0}
	for _, option := range kept {
		to := len(header)
		for to%8 != option.Offset%8 {
			to++
		}
		header = append(padded(header, to), byte(option.Type), byte(len(option.Data)))
		header = append(header, option.Data...)
	}
	header = padded(header, (len(header)+7)&^7)
	header[1] = byte(len(header)/8 - 1)
	return header
}

// reportOptions adds the record and the postcards of some options of a header to the
// packet's result. In the record, others are padding.
func (n *Node) reportOptions(f Frame, p packet, reported func(ioam.Option) bool, result *Result) {
	v := visit{packet: p, postcard: n.passing(f, p)}
	v.postcard.Role, v.postcard.Ingress, v.postcard.Egress = model.RoleDecapsulating, f.Interface, 0
	v.postcard.HopLimit = p.hopLimit() - 1
	v.postcard.TransitDelay, v.postcard.QueueDepth, v.postcard.BufferOccupancy = ioam.DataUnavailable, ioam.DataUnavailable,
		ioam.DataUnavailable
	header := bytes.Clone(p.header)
	for _, option := range p.options {
		if !reported(option) {
			header[option.Offset] = byte(ioam.OptionPadN)
		} else if m := soundModuleOf(option); m != nil {
			m.remove(n, option, &v)
		}
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
