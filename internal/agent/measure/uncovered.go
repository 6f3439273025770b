// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
)

// reasonBits are the reasons for which an interface is not counted, as nodes tell each other.
var reasonBits = []struct {
	reason loss.Reasons
	bit    blocks.Reasons
}{
	{loss.InterfacesChanged, blocks.InterfacesChanged},
	{loss.UnservedInterface, blocks.UnservedInterface},
	{loss.NotExecuted, blocks.NotExecuted},
}

// uncoveredBits are the reasons for another node.
func uncoveredBits(r loss.Reasons) (bits blocks.Reasons) {
	for _, b := range reasonBits {
		if r&b.reason != 0 {
			bits |= b.bit
		}
	}
	return bits
}

// uncoveredBy are the reasons that another node gives. A bit of a later version is a change
// of interfaces.
func uncoveredBy(bits blocks.Reasons) (r loss.Reasons) {
	for _, b := range reasonBits {
		if bits&b.bit != 0 {
			r |= b.reason
		}
		bits &^= b.bit
	}
	if bits != 0 {
		r |= loss.InterfacesChanged
	}
	return r
}
