// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	etherTypeIPv6 = 0x86dd
	etherTypeVLAN = 0x8100
	etherTypeQinQ = 0x88a8
)

// packet is a parsed frame; its slices alias the frame.
type packet struct {
	frame   []byte        // all of it
	link    []byte        // the link-layer header
	ip      []byte        // from the IPv6 header to the end of the frame
	header  []byte        // the Hop-by-Hop header, nil without one
	options []ioam.Option // the IOAM options in it
	pure    bool          // it has only IOAM options and padding
	discard bool          // it has an unknown option that asks nodes to discard the packet
	behind  destination   // the header after it, if that has IOAM; set where it is read
}

// parse is docs/data-plane/parsing.md. When ok is false, the packet goes on
// unchanged with the outcome.
func parse(frame []byte, link Link) (p packet, outcome model.Outcome, ok bool) {
	if p, outcome, ok = parseIPv6(frame, link); ok {
		outcome, ok = p.parseHeader()
	}
	return p, outcome, ok
}

// parseIPv6 is parse up to the IPv6 header.
func parseIPv6(frame []byte, link Link) (p packet, outcome model.Outcome, ok bool) {
	at, isIPv6 := linkHeaderLen(frame, link)
	if !isIPv6 {
		return p, model.OutcomeNotIPv6, false
	}
	p.frame, p.link, p.ip = frame, frame[:at:at], frame[at:]
	if len(p.ip) < ipv6.HeaderLen || p.ip[0]>>4 != 6 {
		return p, model.OutcomeMalformedIPv6, false
	}
	return p, 0, true
}

// parseHeader is the rest of parse.
func (p *packet) parseHeader() (outcome model.Outcome, ok bool) {
	// A Hop-by-Hop header can only be the first (RFC 8200 §4.1).
	if p.nextHeader() != ioam.NextHeaderHopByHop {
		return 0, true
	}
	header, err := ioam.DecodeExtensionHeader(p.ip[ipv6.HeaderLen:])
	if err != nil {
		return model.OutcomeMalformedHeader, false
	}
	// Payload length 0: a jumbogram (RFC 2675 §3) or a packet that the kernel
	// aggregated beyond 64 KiB.
	if length := p.payloadLength(); length != 0 && length < len(header.Bytes) {
		return model.OutcomeMalformedHeader, false
	}
	p.header = header.Bytes
	return p.findOptions(header)
}

// linkHeaderLen is the length of the link-layer header; ok is false when no IPv6
// packet follows it.
func linkHeaderLen(frame []byte, link Link) (length int, ok bool) {
	if link == LinkNone {
		return 0, len(frame) > 0 && frame[0]>>4 == 6
	}
	at := 12 // after the two MAC addresses
	for range 3 {
		if len(frame) < at+2 {
			return 0, false
		}
		etherType := binary.BigEndian.Uint16(frame[at:])
		if etherType == etherTypeIPv6 {
			return at + 2, true
		}
		if !isTag(etherType) {
			return 0, false
		}
		at += 4
	}
	return 0, false // a third tag
}

// findOptions walks the options up to the first error.
func (p *packet) findOptions(header ioam.ExtensionHeader) (outcome model.Outcome, ok bool) {
	p.pure = true
	count := 0
	for option, err := range header.Options() {
		if count == model.MaxOptionsPerHeader {
			return model.OutcomeMalformedTooManyOptions, false
		}
		count++
		if err != nil {
			return model.OutcomeMalformedHeader, false
		}
		switch {
		case option.IsIOAM():
			if len(p.options) == model.MaxOptionsPerPacket {
				return model.OutcomeMalformedTooManyOptions, false
			}
			p.options = append(p.options, option)
		case !option.Type.IsPadding():
			p.pure = false
			p.discard = p.discard || option.Type.Discards()
		}
	}
	return 0, true
}

func (p *packet) nextHeader() ioam.NextHeader { return ioam.NextHeader(p.ip[6]) }
func (p *packet) hopLimit() uint8             { return p.ip[7] }
func (p *packet) source() [16]byte            { return [16]byte(p.ip[8:24]) }
func (p *packet) destination() [16]byte       { return [16]byte(p.ip[24:40]) }
func (p *packet) payloadLength() int          { return int(binary.BigEndian.Uint16(p.ip[4:])) }
func (p *packet) trafficClass() uint8         { return uint8(binary.BigEndian.Uint16(p.ip) >> 4) }
func (p *packet) flowLabel() uint32           { return binary.BigEndian.Uint32(p.ip) & 0xfffff }

func setPayloadLength(ip []byte, length int) {
	binary.BigEndian.PutUint16(ip[4:], uint16(length))
}

// headersLen is the length in bytes of the headers that were read after the IPv6 header.
func (p *packet) headersLen() int { return len(p.header) + len(p.behind.header) }

// nextAfter is the Next Header value of the last one.
func (p *packet) nextAfter() ioam.NextHeader {
	switch {
	case p.behind.header != nil:
		return ioam.NextHeader(p.behind.header[0])
	case p.header != nil:
		return ioam.NextHeader(p.header[0])
	}
	return p.nextHeader()
}

// tunneled returns the IPv6 packet after the IPv6 header and the headers that were read, if
// there is one.
func (p *packet) tunneled() (ip []byte, ok bool) {
	next := p.nextAfter()
	ip = p.ip[ipv6.HeaderLen+p.headersLen():]
	return ip, next == ioam.NextHeaderIPv6 && len(ip) >= ipv6.HeaderLen && ip[0]>>4 == 6
}

// pastDestination is the packet with a Destination Options header after the Hop-by-Hop
// header read, if a tunnelled packet follows it.
func (p packet) pastDestination() packet {
	if p.header == nil || ioam.NextHeader(p.header[0]) != ioam.NextHeaderDestination {
		return p
	}
	header, err := ioam.DecodeExtensionHeader(p.ip[ipv6.HeaderLen+len(p.header):])
	if err != nil || header.NextHeader != ioam.NextHeaderIPv6 {
		return p
	}
	past := p
	past.behind.header = header.Bytes
	if _, ok := past.tunneled(); !ok {
		return p
	}
	return past
}

// removeHeaders returns the frame without the headers that were read.
func (p *packet) removeHeaders() []byte {
	length := p.headersLen()
	frame := append([]byte{}, p.link...)
	frame = append(frame, p.ip[:ipv6.HeaderLen]...)
	frame = append(frame, p.ip[ipv6.HeaderLen+length:]...)

	ip := frame[len(p.link):]
	ip[6] = byte(p.nextAfter())
	if payload := p.payloadLength(); payload != 0 {
		setPayloadLength(ip, payload-length)
	} else if rest := len(ip) - ipv6.HeaderLen; rest <= 0xffff {
		setPayloadLength(ip, rest)
	}
	return frame
}
