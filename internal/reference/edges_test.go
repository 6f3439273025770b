// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestExtractEdges removes Edge-to-Edge options of namespace 300 from Destination Options
// headers that hold other options.
func TestExtractEdges(t *testing.T) {
	const (
		marked = "110a0003 012c4000 00000007"
		stays  = "110a0003 007b4000 00000007"
	)
	for _, test := range []struct {
		name, header, left string
		outcome            model.Outcome
		edges              int // options that are removed
	}{
		{"before an option", "3b02 0100" + marked + "1e06 000000000000", "3b01 0104 00000000 1e06 000000000000", model.OutcomeOptionsRemoved, 1},
		{"after an option of any alignment", "3b02 1e01 07 0101 00" + marked + "0102 0000", "3b00 1e01 07 0101 00", model.OutcomeOptionsRemoved, 1},
		{"two, before and after one that stays", "3b04 0100" + marked + stays + marked, "3b02 0104 00000000" + stays + "0102 0000", model.OutcomeOptionsRemoved, 2},
		{"padding in between", "3b03 0100" + marked + "0106 000000000000" + "3e06 000000000000", "3b01 0104 00000000 3e06 000000000000", model.OutcomeOptionsRemoved, 1},
		{"another Hop-by-Hop header behind", "0002 0100" + marked + "1e06 000000000000", "0001 0104 00000000 1e06 000000000000", model.OutcomeOptionsRemoved, 1},
		{"a Hop-by-Hop header behind, and nothing else in it", "0001 0100" + marked, "", model.OutcomeRemovalPartial, 0},
		{"none to be removed", "3b02 0100" + stays + "1e06 000000000000", "", model.OutcomeNoIOAM, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6Packet(ioam.NextHeaderDestination, craft.Hex(t, test.header))
			n := mustNode(t, testConfig())
			result := n.Ingress(Frame{Data: bytes.Clone(packet), Link: LinkNone, Interface: ifIngress, Time: testTime})
			want := packet
			if test.left != "" {
				want = ipv6Packet(ioam.NextHeaderDestination, craft.Hex(t, test.left))
			}
			if result.Outcome != test.outcome || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], test.outcome, want[40:])
			}
			if result.Outcome == model.OutcomeOptionsRemoved {
				checkExtracted(t, testConfig(), Frame{Data: packet, Link: LinkNone}, result)
			}
			if !slices.Equal(result.Edges, slices.Repeat([]model.Outcome{model.OutcomeOptionUnsupported}, test.edges)) {
				t.Errorf("counted %v", result.Edges)
			}
		})
	}
}
