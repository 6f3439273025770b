// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/bits"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// nearMiss is a frame whose trace or Direct Export the programs treat in one piece
// (common_header.h), or several traces (trace_common.h), or one that differs from it in
// an octet, at any place up to the upper layer.
func (g generator) nearMiss() []byte {
	option := g.commonTrace()
	if g.IntN(2) == 0 {
		option = g.commonExport()
	}
	for more := g.IntN(4) == 0; more; more = g.IntN(5) > 0 {
		option = append(option, g.commonTrace()...)
	}
	next := []byte{17, 17, 41, 59}[g.IntN(4)]
	header := craft.Options(next, 2, option)
	body := append(header, g.upper(next, 1)...)
	ip := craft.IPv6{HopLimit: 64, Source: addresses[g.IntN(4)], Destination: addresses[g.IntN(4)]}
	frame := craft.Ethernet(g.bytes(6), g.bytes(6), ip.With(body))
	begin, end := 12, 14+40+len(header)+8
	if g.IntN(4) == 0 {
		begin = 14 + 40 // of the header, which has most that is looked at
	}
	if at := begin + g.IntN(min(end, len(frame))-begin); g.IntN(8) > 0 {
		frame[at] = []byte{frame[at] ^ 1<<g.IntN(8), frame[at] + 1, frame[at] - 1, 0, 0xff}[g.IntN(5)]
	}
	if g.IntN(20) == 0 {
		frame = frame[:14+40+g.IntN(len(frame)-14-40)]
	}
	return frame
}

func (g generator) commonTrace() []byte {
	kind := ioam.TraceType(g.IntN(16)) << 20
	nodeLen := kind.NodeLen()
	room := nodeLen*g.IntN(4) + g.IntN(3)
	remaining := []int{room, room, room, g.IntN(room + 2), nodeLen, max(nodeLen-1, 0)}[g.IntN(6)]
	return traceOption(namespaceIDs[g.IntN(len(namespaceIDs))], kind, remaining, g.bytes(4*room))
}

// traceOption is a pre-allocated trace without flags.
func traceOption(namespace uint16, kind ioam.TraceType, remaining int, data []byte) []byte {
	option := []byte{0x31, byte(10 + len(data)), 0, 0}
	option = binary.BigEndian.AppendUint16(option, namespace)
	option = binary.BigEndian.AppendUint16(option, uint16(kind.NodeLen()<<11|remaining))
	option = binary.BigEndian.AppendUint32(option, uint32(kind)<<8)
	return append(option, data...)
}

func (g generator) commonExport() []byte {
	flags := byte(g.IntN(4)) << 6
	kind := []uint32{0x80, 0xc0, 0x02, 0x08, 0xf8}[g.IntN(5)] << 24
	optionType, namespace := []byte{0x31, 0x11}[g.IntN(2)], namespaceIDs[g.IntN(len(namespaceIDs))]
	extensions := make([]uint32, bits.OnesCount8(flags))
	for i := range extensions {
		extensions[i] = uint32(g.IntN(4))
	}
	return exportOption(optionType, namespace, flags, kind, extensions...)
}

// exportOption is a Direct Export with the extensions that its flags announce.
func exportOption(optionType byte, namespace uint16, flags byte, kind uint32, extensions ...uint32) []byte {
	option := []byte{optionType, byte(10 + 4*len(extensions)), 0, 4}
	option = binary.BigEndian.AppendUint16(option, namespace)
	option = binary.BigEndian.AppendUint32(append(option, 0, flags), kind)
	for _, extension := range extensions {
		option = binary.BigEndian.AppendUint32(option, extension)
	}
	return option
}
