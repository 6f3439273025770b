// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// The bytes that the papers say their headers add.
func TestPaperHeaders(t *testing.T) {
	var options, namespaces []int
	for n := 1; n <= 9; n++ {
		options = append(options, overhead(model.ModeEncap, pathInEach(1, fields(n))))
		namespaces = append(namespaces, overhead(model.ModeEncap, pathInEach(n, fields(1))))
	}
	if difference := cmp.Diff([]int{72, 80, 96, 104, 120, 128, 152, 176, 200}, options); difference != "" {
		t.Error("options", difference)
	}
	if difference := cmp.Diff([]int{72, 96, 120, 144, 168, 192, 216, 240, 264}, namespaces); difference != "" {
		t.Error("namespaces", difference)
	}
	if most := overhead(model.ModeInline, pathInEach(1, fields(len(fieldBits)))); most < 180 || most > 220 {
		t.Errorf("11 options add %d bytes instead of about 200", most)
	}
}

// A share of the packets has to be met from both sides, all of them from one.
func TestShares(t *testing.T) {
	device := func(index int) netlink.Link { return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}} }
	l := &line{nodes: []*node{{in: device(1), out: device(2)}}}
	counted := func(n uint64) [][]datapath.Counters {
		c := datapath.Counters{Index: 2}
		c.Egress[model.OutcomeEncapInserted] = n
		return [][]datapath.Counters{{{Index: 1}, c}}
	}
	for _, test := range []struct {
		share   float64
		n       uint64
		allowed bool
	}{
		{0, 10_000, true}, {0, 9900, true}, {0, 9800, false}, {0, 12_000, true},
		{0.01, 100, true}, {0.01, 96, false}, {0.01, 105, false}, {0.0001, 0, true}, {0.0001, 4, false}, {1, 10_000, true}, {1, 11_000, false},
	} {
		v := &variant{wants: []want{{hook: datapath.HookEgressTC, outcome: model.OutcomeEncapInserted, share: test.share}}}
		if err := v.check(l, counted(5), counted(5+test.n), 10_000); (err == nil) != test.allowed {
			t.Errorf("%d of 10000 at a share of %v: %v", test.n, test.share, err)
		}
	}
}
