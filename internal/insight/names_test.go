// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"testing"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// A report has the names of ids, and keeps those that records have.
func TestReportNames(t *testing.T) {
	none := nodenames.Interface{ID: ioam.InterfaceIDUnavailable, IDWide: ioam.InterfaceIDWideUnavailable}
	east, west := none, none
	east.ID, east.Name = 202, "east0"
	west.IDWide, west.Name = 7, "west0"
	names := nodenames.New(
		nodenames.Node{ID: 2, IDWide: ioam.NodeIDWideUnavailable, Name: "r2", Interfaces: []nodenames.Interface{east}},
		nodenames.Node{ID: ioam.NodeIDUnavailable, IDWide: 3, Name: "r3", Interfaces: []nodenames.Interface{west}},
	)
	places := []Place{
		{NodeID: 2, IngressID: 201, EgressID: 202},
		{NodeID: 3, Wide: true, IngressID: 7},
		{NodeID: 9},
		{Node: "kept", NodeID: 2},
	}
	r := &Report{Pairs: []PairReport{{Paths: []PathReport{{}}}}}
	for _, p := range places {
		r.Pairs[0].Paths[0].Hops = append(r.Pairs[0].Paths[0].Hops, HopReport{Place: p})
	}
	r.Name(nil)
	r.Name(names)
	for i, want := range []Place{
		{Node: "r2", NodeID: 2, IngressID: 201, EgressID: 202, EgressName: "east0"}, {Node: "r3", NodeID: 3, Wide: true, IngressID: 7, IngressName: "west0"}, {NodeID: 9}, {Node: "kept", NodeID: 2},
	} {
		if got := r.Pairs[0].Paths[0].Hops[i].Place; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
