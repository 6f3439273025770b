// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"encoding/binary"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/stamp"
)

// SelectionsType is the type of the TLV that says which packets a node counts in flows. Nodes that
// do not know it return it as unrecognized.
const SelectionsType stamp.Type = 253

const (
	selectionsMagic     = 0x57534c31 // "WSL1"
	selectionsHeaderLen = 4 + 4 + 4 + 8
	selectionLen        = 8 + 4 + loss.SelectionLen
)

const (
	// MostTogether is how many flows one packet asks for with both TLVs: it then fits 1280 octets
	// with its IPv6, UDP and STAMP headers and an HMAC.
	MostTogether = 9
	// MostSelections is the same of this TLV alone.
	MostSelections = 38
)

// Selected is what a node counts in a flow, for the whole of a block.
type Selected struct {
	Flow      FlowKey
	State     State
	Selection loss.Selection // of an answer; its block is that of the message
}

// Selections is the content of the TLV. In an answer, Length is the length of the answering node's
// blocks: what the node selects is known even if its blocks have another length.
type Selections struct {
	Length  time.Duration // of a block, whole milliseconds
	Block   uint64
	Entries []Selected
}

// Append appends the TLV's value.
func (m *Selections) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, enterprise)
	b = binary.BigEndian.AppendUint32(b, selectionsMagic)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Length/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, m.Block)
	for _, e := range m.Entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Flow))
		b = append(binary.BigEndian.AppendUint16(b, uint16(e.State)&stateMask), 0, 0)
		b = e.Selection.Append(b)
	}
	return b
}

// DecodeSelections reads a TLV's value.
func DecodeSelections(b []byte) (m Selections, err error) {
	if len(b) < selectionsHeaderLen || (len(b)-selectionsHeaderLen)%selectionLen != 0 ||
		len(b) > selectionsHeaderLen+MostSelections*selectionLen ||
		binary.BigEndian.Uint32(b) != enterprise || binary.BigEndian.Uint32(b[4:]) != selectionsMagic {
		return m, ErrMalformed
	}
	m.Length = time.Duration(binary.BigEndian.Uint32(b[8:])) * time.Millisecond
	m.Block = binary.BigEndian.Uint64(b[12:])
	m.Entries = make([]Selected, 0, (len(b)-selectionsHeaderLen)/selectionLen)
	for b = b[selectionsHeaderLen:]; len(b) > 0; b = b[selectionLen:] {
		m.Entries = append(m.Entries, Selected{
			Flow: FlowKey(binary.BigEndian.Uint64(b)), State: State(binary.BigEndian.Uint16(b[8:]) & stateMask),
			Selection: loss.DecodeSelection(b[12:], m.Length),
		})
	}
	return m, nil
}
