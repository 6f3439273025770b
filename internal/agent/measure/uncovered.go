// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
)

// gapBits are the reasons for which an interface is not counted, as nodes tell each other.
var gapBits = []struct {
	reason loss.Reasons
	bit    blocks.Gaps
}{
	{loss.InterfacesChanged, blocks.GapChanged}, {loss.UnservedInterface, blocks.GapUnserved}, {loss.NotExecuted, blocks.GapNotExecuted},
}

func gapsOf(r loss.Reasons) (g blocks.Gaps) {
	for _, b := range gapBits {
		if r&b.reason != 0 {
			g |= b.bit
		}
	}
	return g
}

// uncoveredBy are the reasons that another node gives. A bit of a later version is a change
// of interfaces.
func uncoveredBy(g blocks.Gaps) (r loss.Reasons) {
	for _, b := range gapBits {
		if g&b.bit != 0 {
			r |= b.reason
		}
		g &^= b.bit
	}
	if g != 0 {
		r |= loss.InterfacesChanged
	}
	return r
}
