// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/attach"
)

// Edges filter until nothing is added any more; the ingress hook of an interface ends before
// the egress hook that completes what has entered.
func TestEdgesAreLeftLast(t *testing.T) {
	in, out := &attach.Hook{Ingress: true}, &attach.Hook{}
	edgeIn, edgeOut := &attach.Hook{Ingress: true}, &attach.Hook{}
	old := &attach.Hook{Ingress: true}
	list := inOrderOfLeaving([]*served{
		{ingress: edgeIn, egress: edgeOut, edges: [2]bool{true, true}},
		{ingress: in, egress: out, leftovers: []*attach.Hook{old}},
		{},
	})
	want := []*attach.Hook{old, in, out, edgeIn, edgeOut}
	if len(list) != len(want) {
		t.Fatalf("%d attachments end, want %d", len(list), len(want))
	}
	for i, a := range want {
		if list[i] != a {
			t.Errorf("number %d is not the one expected", i+1)
		}
	}
}
