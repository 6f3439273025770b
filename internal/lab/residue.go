// SPDX-License-Identifier: Apache-2.0

package lab

import "encoding/binary"

const (
	etherTypeIPv6     = 0x86dd
	ethernetSize      = 14
	ipv6Size          = 40
	nextHopByHop      = 0
	nextIPv6          = 41
	nextRouting       = 43
	nextFragment      = 44
	nextAH            = 51
	nextDestination   = 60
	optionPad1        = 0
	optionIOAM        = 0x31 // RFC 9486 §3: changes en route
	optionIOAMFixed   = 0x11 // RFC 9486 §3: does not change
	ioamOptionHeader  = 4
	maxResidueHeaders = 16
	rawResidueWindow  = 512 // bytes of a frame that may contain headers
)

// IOAMBytes counts the bytes of IOAM options in an Ethernet frame: in every Hop-by-Hop
// and Destination Options header (RFC 8200 §4.3, §4.6), inside tunnels, too. It shares
// no code with the programs that remove them.
func IOAMBytes(frame []byte) int {
	if len(frame) < ethernetSize || binary.BigEndian.Uint16(frame[12:]) != etherTypeIPv6 {
		return 0
	}
	packet := frame[ethernetSize:]
	total, next := 0, uint8(nextIPv6)
	for range maxResidueHeaders {
		size := 0
		switch next {
		case nextIPv6:
			if len(packet) < ipv6Size || packet[0]>>4 != 6 {
				return total
			}
			next, size = packet[6], ipv6Size
		case nextHopByHop, nextDestination, nextRouting, nextFragment, nextAH:
			if len(packet) < 8 {
				return total
			}
			size = (int(packet[1]) + 1) * 8
			switch {
			case next == nextFragment:
				size = 8
			case next == nextAH:
				size = (int(packet[1]) + 2) * 4
			case next != nextRouting:
				total += ioamOptions(packet[2:min(size, len(packet))])
			}
			next = packet[0]
		default:
			return total
		}
		if size > len(packet) {
			return total
		}
		packet = packet[size:]
	}
	return total
}

// ioamOptions counts the bytes of IOAM options among the options of a header.
func ioamOptions(options []byte) int {
	total := 0
	for len(options) > 0 {
		if options[0] == optionPad1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 {
			break
		}
		size := min(2+int(options[1]), len(options))
		if options[0] == optionIOAM || options[0] == optionIOAMFixed {
			total += size
		}
		options = options[size:]
	}
	return total
}

// TraceRemains looks for a pre-allocated trace of a namespace anywhere in the
// first bytes of a frame, whatever its headers claim: option type, length,
// reserved byte and option-type of RFC 9486 §3, then the namespace and the
// trace type of RFC 9197 §4.4.1.
func TraceRemains(frame []byte, namespace uint16, traceType uint32) bool {
	window := frame[:min(len(frame), rawResidueWindow)]
	for i := 0; i+ioamOptionHeader+8 <= len(window); i++ {
		option, trace := window[i:], window[i+ioamOptionHeader:]
		if option[0] == optionIOAM && option[2] == 0 && option[3] == 0 &&
			binary.BigEndian.Uint16(trace) == namespace && binary.BigEndian.Uint32(trace[4:])>>8 == traceType {
			return true
		}
	}
	return false
}
