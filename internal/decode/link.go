// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"encoding/binary"
	"errors"
)

// LinkType is the format of the link layer, a LINKTYPE_ number of pcap.
type LinkType uint16

// The link layers that are understood.
const (
	LinkEthernet LinkType = 1
	LinkRawBSD   LinkType = 12 // DLT_RAW of most systems
	LinkRawOBSD  LinkType = 14 // DLT_RAW of OpenBSD
	LinkRaw      LinkType = 101
	LinkSLL      LinkType = 113 // Linux "cooked"
	LinkIPv6     LinkType = 229
	LinkSLL2     LinkType = 276 // Linux "cooked", version 2
)

// etherType is the protocol after a link layer.
type etherType uint16

const (
	etherTypeIPv6 etherType = 0x86dd
	etherTypeVLAN etherType = 0x8100
	etherTypeQinQ etherType = 0x88a8
)

const maxVLANTags = 2

// Known reports whether packets of this link layer can be read.
func (l LinkType) Known() bool {
	switch l {
	case LinkEthernet, LinkRawBSD, LinkRawOBSD, LinkRaw, LinkSLL, LinkIPv6, LinkSLL2:
		return true
	}
	return false
}

// errNoWholeLink is the error of a frame that ends before the type of its payload.
var errNoWholeLink = errors.New("incomplete link-layer header")

// ipv6 finds the IPv6 packet after the link layer; nil when there is none. The error
// means that the frame is too short to know.
func (l LinkType) ipv6(frame []byte) ([]byte, error) {
	var header, protocol int
	switch l {
	case LinkEthernet:
		header, protocol = 14, 12
	case LinkSLL:
		header, protocol = 16, 14
	case LinkSLL2:
		header, protocol = 20, 0
	case LinkRawBSD, LinkRawOBSD, LinkRaw, LinkIPv6:
		switch {
		case len(frame) == 0:
			return nil, errNoWholeLink
		case frame[0]>>4 != 6:
			return nil, nil
		}
		return frame, nil
	default:
		return nil, nil
	}
	if len(frame) < header {
		return nil, errNoWholeLink
	}
	kind, rest := etherType(binary.BigEndian.Uint16(frame[protocol:])), frame[header:]
	for range maxVLANTags {
		if kind != etherTypeVLAN && kind != etherTypeQinQ {
			break
		}
		if len(rest) < 4 {
			return nil, errNoWholeLink
		}
		kind, rest = etherType(binary.BigEndian.Uint16(rest[2:])), rest[4:]
	}
	if kind != etherTypeIPv6 {
		return nil, nil
	}
	return rest, nil
}
