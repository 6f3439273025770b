// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/patience"
)

// mostStretched keeps the longest block of a built-in topology within what configurations take.
const mostStretched = 60

// StretchBlocks makes the blocks of measured flows as much longer as patience says: nodes of a slow
// machine need longer to look at their programs and to answer, and of a block without that, nothing is known.
func (t *Topology) StretchBlocks() {
	factor := config.BlockLength(min(patience.Of(1), mostStretched))
	for i := range t.Nodes {
		a := t.Nodes[i].Agent
		if a == nil || a.Settings == nil || a.Settings.Measurement == nil || factor == 1 {
			continue
		}
		m := a.Settings.Measurement
		m.Block *= factor
		if m.Guard != nil {
			guard := *m.Guard * factor
			m.Guard = &guard
		}
		a.Config = a.Settings.Marshal()
	}
}
