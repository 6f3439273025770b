// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/binary"
	"net/netip"
)

// Sub-TLVs of a Location TLV (RFC 8972 §4.2.1). A sender asks with the generic ones;
// the reflector answers with a specific one of the same length.
const (
	SubSourceMAC       Type = 1 // generic
	SubSourceEUI48     Type = 2
	SubSourceEUI64     Type = 3
	SubDestination     Type = 4 // generic
	SubDestinationIPv4 Type = 5
	SubDestinationIPv6 Type = 6
	SubSource          Type = 7 // generic
	SubSourceIPv4      Type = 8
	SubSourceIPv6      Type = 9
)

// locationPortsLen is the length of a Location before its sub-TLVs.
const locationPortsLen = 4

// Location is what the reflector saw of the sender's packet (RFC 8972 §4.2): where a
// NAT is on the way, it differs from what the sender sent.
type Location struct {
	DestinationPort, SourcePort uint16
	Destination, Source         netip.Addr // invalid where the sub-TLV is absent or not filled
}

// AppendLocationRequest appends the value with which a sender asks for ports,
// addresses, and the source's MAC address.
func AppendLocationRequest(dst []byte) []byte {
	dst = append(dst, make([]byte, locationPortsLen)...)
	for _, sub := range []struct {
		t      Type
		length int
	}{{SubSourceMAC, 8}, {SubDestination, 16}, {SubSource, 16}} {
		dst = append(dst, byte(FlagUnrecognized), byte(sub.t), 0, byte(sub.length))
		dst = append(dst, make([]byte, sub.length)...)
	}
	return dst
}

// LocationSubTLVs are the sub-TLVs of a Location; nil if the value is too short.
func LocationSubTLVs(value []byte) []byte {
	if len(value) < locationPortsLen {
		return nil
	}
	return value[locationPortsLen:]
}

// DecodeLocation decodes a value. Sub-TLVs with the U flag are skipped. The causes of
// an error are ErrTLVLength and ErrTLVTruncated.
func DecodeLocation(value []byte) (Location, error) {
	if err := checkLocation(value); err != nil {
		return Location{}, err
	}
	l := Location{DestinationPort: binary.BigEndian.Uint16(value), SourcePort: binary.BigEndian.Uint16(value[2:])}
	for sub, err := range TLVs(value[locationPortsLen:]) {
		if err != nil || sub.Flags()&(FlagUnrecognized|FlagMalformed) != 0 {
			continue
		}
		address := &l.Source
		if sub.Type() == SubDestinationIPv4 || sub.Type() == SubDestinationIPv6 {
			address = &l.Destination
		}
		var a netip.Addr
		switch sub.Type() {
		case SubDestinationIPv4, SubSourceIPv4:
			a, _ = netip.AddrFromSlice(sub.Value()[:4])
		case SubDestinationIPv6, SubSourceIPv6:
			a, _ = netip.AddrFromSlice(sub.Value())
		}
		if a.IsValid() && !a.IsUnspecified() {
			*address = a
		}
	}
	return l, nil
}

// subLength is the length that a sub-TLV of a Location must have; -1 if the type is
// unknown.
func subLength(t Type) int {
	switch t {
	case SubSourceMAC, SubSourceEUI48, SubSourceEUI64:
		return 8
	case SubDestination, SubDestinationIPv4, SubDestinationIPv6, SubSource, SubSourceIPv4, SubSourceIPv6:
		return 16
	}
	return -1
}

func checkLocation(value []byte) error {
	if len(value) < locationPortsLen {
		return fault(len(value), "RFC 8972 §4.2", ErrTLVLength)
	}
	for sub, err := range TLVs(value[locationPortsLen:]) {
		if err != nil {
			return fault(locationPortsLen+sub.Offset, "RFC 8972 §4.2.1", ErrTLVTruncated)
		}
		if want := subLength(sub.Type()); want >= 0 && len(sub.Value()) != want {
			return fault(locationPortsLen+sub.Offset, "RFC 8972 §4.2.1", ErrTLVLength)
		}
	}
	return nil
}

// Sub-TLVs of a Return Path TLV (RFC 9503 §4.1).
const (
	SubControlCode   Type = 1
	SubReturnAddress Type = 2
	SubLabelStack    Type = 3 // of SR-MPLS
	SubSegmentList   Type = 4 // of SRv6
)

// Control codes of a Return Path (RFC 9503 §4.1.1).
const (
	ReplyNone     uint32 = 0 // no reply is wanted
	ReplySameLink uint32 = 1 // over the link on which the packet came
)

// ReturnPath asks for the path of the reply (RFC 9503 §4).
type ReturnPath struct {
	HasControlCode bool
	ControlCode    uint32     // only its lowest bit has a meaning
	Address        netip.Addr // the address to reply to; invalid if absent
	Labels         []byte     // SR-MPLS label stack; aliases the packet
	Segments       []byte     // SRv6 SIDs of 16 octets, the first to visit first; aliases the packet
}

// DecodeReturnPath decodes a value. Of several sub-TLVs of a type the first counts;
// after a control code all others are ignored (RFC 9503 §4.1.1). The causes of an
// error are ErrTLVLength and ErrTLVTruncated.
func DecodeReturnPath(value []byte) (ReturnPath, error) {
	if err := checkReturnPath(value); err != nil {
		return ReturnPath{}, err
	}
	var p ReturnPath
	for sub, err := range TLVs(value) {
		switch {
		case err != nil:
			return p, err
		case sub.Type() == SubControlCode && !p.HasControlCode:
			p.HasControlCode, p.ControlCode = true, binary.BigEndian.Uint32(sub.Value())&1
		case sub.Type() == SubReturnAddress && !p.Address.IsValid():
			p.Address, _ = netip.AddrFromSlice(sub.Value())
		case sub.Type() == SubLabelStack && p.Labels == nil && p.Segments == nil:
			p.Labels = sub.Value()
		case sub.Type() == SubSegmentList && p.Labels == nil && p.Segments == nil:
			p.Segments = sub.Value()
		}
	}
	if p.HasControlCode {
		return ReturnPath{HasControlCode: true, ControlCode: p.ControlCode}, nil
	}
	return p, nil
}

// AppendControlCode appends the value of a Return Path with a control code.
func AppendControlCode(dst []byte, code uint32) []byte {
	dst = append(dst, byte(FlagUnrecognized), byte(SubControlCode), 0, 4)
	return binary.BigEndian.AppendUint32(dst, code)
}

// AppendSegmentList appends the value of a Return Path with SRv6 SIDs, the first to
// visit first. The cause of an error is ErrTLVTooLong.
func AppendSegmentList(dst []byte, sids []netip.Addr) ([]byte, error) {
	value := make([]byte, 0, 16*len(sids))
	for _, sid := range sids {
		octets := sid.As16()
		value = append(value, octets[:]...)
	}
	return AppendTLV(dst, FlagUnrecognized, SubSegmentList, value)
}

func checkReturnPath(value []byte) error {
	for sub, err := range TLVs(value) {
		if err != nil {
			return fault(sub.Offset, "RFC 9503 §4.1", ErrTLVTruncated)
		}
		n := len(sub.Value())
		var valid bool
		switch sub.Type() {
		case SubControlCode:
			valid = n == 4
		case SubReturnAddress:
			valid = n == 4 || n == 16
		case SubLabelStack:
			valid = n > 0 && n%4 == 0
		case SubSegmentList:
			valid = n > 0 && n%16 == 0
		default:
			valid = true
		}
		if !valid {
			return fault(sub.Offset, "RFC 9503 §4.1", ErrTLVLength)
		}
	}
	return nil
}
