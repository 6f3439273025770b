// SPDX-License-Identifier: Apache-2.0

// Package kernelevents receives the events of the Linux kernel's own IOAM, from
// its generic netlink family IOAM6 (linux/ioam6_genl.h). The kernel makes one for
// each pre-allocated trace of RFC 9197 that passes a receiving interface with
// ioam6_enabled, after it has added its own node data.
package kernelevents

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/netlinkattr"
	"github.com/waymark-net/waymark/ioam"
)

// Constants of linux/ioam6_genl.h.
const (
	familyName   = "IOAM6"
	groupName    = "ioam6_events"
	commandTrace = 1

	attributeNamespace = 1 // 16 bits
	attributeNodeLen   = 2 // 8 bits, in 4 bytes
	attributeType      = 3 // 32 bits: the trace type, then the 8 reserved bits
	attributeData      = 4 // the node data list, without the free space
)

const genericHeaderLength = 4 // command, version, two bytes reserved

// maxData is more than an option can hold.
const maxData = 256

var (
	errOther      = errors.New("not an event of a trace") // an unknown kind of event
	errIncomplete = errors.New("the event is incomplete")
)

// decode reads a generic netlink message of the family. The event has neither
// flags nor free space, so Flags and RemainingLen of the trace are 0. The trace
// owns its data.
func decode(message []byte) (ioam.Trace, error) {
	if len(message) < genericHeaderLength {
		return ioam.Trace{}, errIncomplete
	}
	if message[0] != commandTrace {
		return ioam.Trace{}, errOther
	}
	var trace ioam.Trace
	var data []byte
	seen := 0
	whole := netlinkattr.Each(message[genericHeaderLength:], func(kind uint16, value []byte) {
		switch {
		case kind == attributeNamespace && len(value) == 2:
			trace.Namespace = ioam.NamespaceID(binary.NativeEndian.Uint16(value))
		case kind == attributeNodeLen && len(value) == 1:
			trace.NodeLen = value[0]
		case kind == attributeType && len(value) == 4:
			word := binary.NativeEndian.Uint32(value)
			trace.Type, trace.Reserved = ioam.TraceType(word>>8), uint8(word)
		case kind == attributeData && len(value) <= maxData:
			data = value
		default:
			return // from a later kernel
		}
		seen |= 1 << kind
	})
	const all = 1<<attributeNamespace | 1<<attributeNodeLen | 1<<attributeType | 1<<attributeData
	if !whole || seen != all {
		return ioam.Trace{}, errIncomplete
	}
	if err := trace.Check(); err != nil {
		return ioam.Trace{}, err
	}
	trace.Data = bytes.Clone(data)
	return trace, nil
}

// messages calls each with the content of every message of the family in a
// datagram, and fails when lengths in it contradict each other.
func messages(datagram []byte, family uint16, each func(content []byte)) error {
	for len(datagram) > 0 {
		if len(datagram) < unix.SizeofNlMsghdr {
			return errIncomplete
		}
		length := int(binary.NativeEndian.Uint32(datagram))
		if length < unix.SizeofNlMsghdr || length > len(datagram) {
			return fmt.Errorf("a message of %d bytes in %d: %w", length, len(datagram), errIncomplete)
		}
		if binary.NativeEndian.Uint16(datagram[4:]) == family {
			each(datagram[unix.SizeofNlMsghdr:length])
		}
		datagram = datagram[min((length+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(datagram)):]
	}
	return nil
}
