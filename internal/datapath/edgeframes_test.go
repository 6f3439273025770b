// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// policies are those of some namespaces at an edge.
func (g generator) policies() (list []model.NamespacePolicy) {
	for _, id := range namespaceIDs {
		if g.IntN(2) == 0 {
			list = append(list, model.NamespacePolicy{Namespace: ioam.NamespaceID(id), Boundary: model.Boundary(g.IntN(3))})
		}
	}
	return list
}

// foreignIOAM is an IOAM option of an option-type that may not exist, of a length that may be
// too short for a namespace.
func (g generator) foreignIOAM() []byte {
	option := []byte{0x31, byte(2 + 2*g.IntN(4)), byte(g.IntN(2)), byte(g.IntN(8))}
	option = binary.BigEndian.AppendUint16(option, namespaceIDs[g.IntN(len(namespaceIDs))])
	option = append(option, g.bytes(6)...)[:2+int(option[1])]
	return append(option, g.padding(-len(option)&3)...)
}
