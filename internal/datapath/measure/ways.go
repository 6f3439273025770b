// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

// WaysOf are the directions in which packets are counted at an interface with these roles,
// as programs have them.
func WaysOf(roles uint8) (ways coverage.Ways) {
	if roles&uint8(bpf.ABIOutsideOUTSIDE_INGRESS) == 0 {
		ways |= coverage.Arrivals
	}
	if roles&uint8(bpf.ABIOutsideOUTSIDE_EGRESS) == 0 {
		ways |= coverage.Departures
	}
	return ways
}

// way is the direction in which packets of a flow are counted.
func (s *selectedFlow) way() coverage.Ways {
	if s.direction == uint32(bpf.ABIDirectionDIRECTION_OUT) {
		return coverage.Departures
	}
	return coverage.Arrivals
}

// Digest tells sets of interfaces at which packets are counted apart. It is not 0.
func Digest(all map[model.IfIndex]coverage.Ways) uint32 {
	h := fnv.New32a()
	indexes := make([]model.IfIndex, 0, len(all))
	for index := range all {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		var b [5]byte
		binary.NativeEndian.PutUint32(b[:], uint32(index))
		b[4] = byte(all[index])
		_, _ = h.Write(b[:])
	}
	return h.Sum32() | 1
}
