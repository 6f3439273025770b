// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// incremental is an incremental trace option, mostly valid, with the data of up to four
// nodes.
func (g generator) incremental() []byte {
	kind := g.traceType()
	nodeLen := kind.NodeLen()
	data := g.nodesOf(kind)
	if nodeLen > 0 && len(data) >= 4 && g.IntN(4) == 0 { // what this node may have written
		copy(data, []byte{[]byte{63, 64, 255}[g.IntN(3)], 0, 0, 2})
	}
	switch g.IntN(30) { // ends within a node's data, mostly
	case 0:
		data = g.bytes(4 * g.IntN(62))
	case 1:
		data = data[:g.IntN(len(data)+1)]
	case 2:
		data = append(data, 0, 0)
	}
	remaining := []int{0, nodeLen, 127, g.IntN(128)}[g.IntN(4)]
	flags := []int{0, 0, 0, 0, 0, 8, 4, 2}[g.IntN(8)]
	if g.IntN(6) == 0 { // asks for a copy
		kind, nodeLen, flags = model.LoopbackType, 1, 4
	}
	if g.IntN(30) == 0 {
		nodeLen = g.IntN(32)
	}
	option := []byte{0x31, byte(10 + len(data)), 0, 1}
	option = binary.BigEndian.AppendUint16(option, namespaceIDs[g.IntN(len(namespaceIDs))])
	option = binary.BigEndian.AppendUint16(option, uint16(nodeLen<<11|flags<<7|remaining))
	option = binary.BigEndian.AppendUint32(option, uint32(kind)<<8|uint32(g.IntN(2)))
	return append(option, data...)
}

// nodesOf are the data of up to four nodes, as far as an option has room.
func (g generator) nodesOf(kind ioam.TraceType) (data []byte) {
	for range g.IntN(5) {
		node := g.bytes(4 * kind.NodeLen())
		if kind.HasSnapshot() {
			words := g.IntN(4)
			if g.IntN(8) == 0 {
				words = g.IntN(60)
			}
			node = append(append(node, byte(words)), g.bytes(3+4*words)...)
		}
		if len(data)+len(node) <= 244 {
			data = append(data, node...)
		}
	}
	return data
}

// growing makes an inserted trace incremental.
func (g generator) growing(o model.TraceOption) model.TraceOption {
	if o.Type &^= 2; o.Type.NodeLen() == 0 {
		o.Type = 0x800000
	}
	o.Incremental = true
	o.Size = min(4*o.Type.NodeLen()+4*g.IntN(30), model.MaxTraceDataSize)
	return o
}

// mostGrowth is the most that the incremental traces of an arriving packet may add to it at
// this node, with padding.
func mostGrowth(cfg model.NodeConfig, ip []byte) (bytes int) {
	if ip[6] != 0 || len(ip) < 48 {
		return 0
	}
	header, err := ioam.DecodeExtensionHeader(ip[40:])
	if err != nil {
		return 0
	}
	for option, err := range header.Options() {
		if err != nil || option.Type != ioam.OptionIOAM || len(option.Data) < 10 || ioam.IOAMType(option.Data[1]) != ioam.IOAMIncrementalTrace {
			continue
		}
		trace, _ := ioam.DecodeTrace(option.Data[2:])
		trace.Incremental = true
		if _, err := trace.Nodes(); err != nil {
			continue // it does not end with the data of a node, and does not grow
		}
		for _, ns := range cfg.Namespaces {
			if ns.ID != trace.Namespace || !ns.Incremental || trace.Flags&ioam.FlagOverflow != 0 || int(trace.NodeLen) != trace.Type.NodeLen() {
				continue
			}
			if bytes += 4*trace.Type.NodeLen() + 4; trace.Type.HasSnapshot() {
				bytes += len(ns.Schema.Append(nil))
			}
		}
	}
	return bytes
}

func growing(c *model.NodeConfig) { c.Namespaces[0].Incremental = true }
