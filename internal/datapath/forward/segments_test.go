// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/test/testnet"
)

// segmentMaps are the maps of fast forwarding, and what reads them as programs do.
func segmentMaps(t *testing.T) (*Control, func(address string) (bpf.ABIBehaviour, bool)) {
	t.Helper()
	testnet.NeedRoot(t)
	spec, err := bpf.LoadIngressXDP()
	if err != nil {
		t.Fatal(err)
	}
	bpf.Mappable(spec.Maps)
	maps := make(bpf.Maps)
	t.Cleanup(maps.Close)
	for _, name := range []string{bpf.MapForwarding, bpf.MapBehaviours, bpf.MapSegmentRoutes} {
		if maps[name], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := New(maps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f, func(address string) (b bpf.ABIBehaviour, known bool) {
		t.Helper()
		var state bpf.ABIForwarding
		if err := maps[bpf.MapForwarding].Lookup(uint32(0), &state); err != nil {
			t.Fatal(err)
		}
		if state.Key&uint16(bpf.ABIForwardingKeyKEY_SEGMENTS) == 0 {
			return b, false
		}
		table := uint32(state.Key) / uint32(bpf.ABIForwardingKeyKEY_SECOND_TABLE) & 1
		var number uint32
		err := maps[bpf.MapSegmentRoutes].Lookup(routeKey(table, netip.PrefixFrom(netip.MustParseAddr(address), 128)), &number)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return b, false
		}
		if err == nil {
			err = maps[bpf.MapBehaviours].Lookup(number, &b)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b, true
	}
}

func segmentRoute(prefix string, b Behaviour) SegmentRoute {
	return SegmentRoute{Prefix: netip.MustParsePrefix(prefix), Behaviour: b}
}

// Programs use a table from the report that names it; until then, they use the one
// before.
func TestSegmentTables(t *testing.T) {
	f, find := segmentMaps(t)
	holds := func(address string, want BehaviourKind, known bool) {
		t.Helper()
		if b, ok := find(address); ok != known || BehaviourKind(b.Kind) != want {
			t.Errorf("%s: %v, %v", address, b.Kind, ok)
		}
	}
	set := func(list ...SegmentRoute) {
		t.Helper()
		if err := f.SetSegments(list); err != nil {
			t.Fatal(err)
		}
	}
	renew := func(segments bool) {
		t.Helper()
		if err := f.Renew(Routing{Segments: segments}); err != nil {
			t.Fatal(err)
		}
	}
	end, decapsulate := Behaviour{Kind: BehaviourEnd}, Behaviour{Kind: BehaviourDecapsulate, Table: 254}
	set(segmentRoute("fc00:1::/64", end), segmentRoute("fc00:1::d/128", decapsulate))
	holds("fc00:1::1", BehaviourStack, false)
	renew(true)
	holds("fc00:1::1", BehaviourEnd, true)
	holds("fc00:1::d", BehaviourDecapsulate, true)
	set(segmentRoute("fc00:2::/64", end))
	if err := f.Beat(); err != nil {
		t.Fatal(err)
	}
	holds("fc00:1::1", BehaviourEnd, true)
	holds("fc00:2::1", BehaviourStack, false)
	renew(true)
	holds("fc00:2::1", BehaviourEnd, true)
	holds("fc00:1::1", BehaviourStack, false)
	renew(false)
	holds("fc00:2::1", BehaviourStack, false)
	set(segmentRoute("fc00:1::/64", decapsulate))
	set(segmentRoute("fc00:3::/64", end)) // no report between the two
	renew(true)
	holds("fc00:3::1", BehaviourEnd, true)
	holds("fc00:1::1", BehaviourStack, false)
}

// More than there is room for is refused as a whole, and what is in use stays. Routes
// share equal behaviours, and the stack has the tables beyond the last one.
func TestSegmentBounds(t *testing.T) {
	f, find := segmentMaps(t)
	many := func(n int, of func(i int) Behaviour) (list []SegmentRoute) {
		for i := range n {
			list = append(list, segmentRoute(fmt.Sprintf("fc00:%x::/48", i), of(i)))
		}
		return list
	}
	next := func(i int) Behaviour {
		return Behaviour{Kind: BehaviourEnd, NextHop: netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i))}
	}
	same := func(int) Behaviour { return Behaviour{Kind: BehaviourEnd} }
	most, routes := int(bpf.ABISegmentBoundBEHAVIOURS), int(bpf.ABISegmentBoundSEGMENT_ROUTES)
	for _, tt := range []struct {
		list []SegmentRoute
		want error
	}{
		{many(most, next), nil}, {many(most+1, next), ErrTooManySegments},
		{many(routes, same), nil}, {many(routes, same), nil}, {many(routes+1, same), ErrTooManySegments},
	} {
		if err := f.SetSegments(tt.list); !errors.Is(err, tt.want) {
			t.Errorf("%d routes: %v, want %v", len(tt.list), err, tt.want)
		}
		if err := f.Renew(Routing{Segments: true}); err != nil {
			t.Fatal(err)
		}
		if b, ok := find("fc00:7::"); !ok || BehaviourKind(b.Kind) != BehaviourEnd {
			t.Errorf("after %d routes: %+v, %v", len(tt.list), b, ok)
		}
	}
	tables := many(9, func(i int) Behaviour { return Behaviour{Kind: BehaviourDecapsulate, Table: uint32(100 + i)} })
	if err := f.SetSegments(tables); err != nil {
		t.Fatal(err)
	}
	if err := f.Renew(Routing{Segments: true}); err != nil {
		t.Fatal(err)
	}
	for i := range tables {
		b, _ := find(fmt.Sprintf("fc00:%x::", i))
		if fast := i < int(bpf.ABISegmentBoundSEGMENT_TABLES); (BehaviourKind(b.Kind) == BehaviourDecapsulate) != fast ||
			fast && (int(b.Table) != i+1 || int(b.TableId) != 100+i) ||
			!fast && StackReason(b.Reason) != StackSegmentBehaviour {
			t.Errorf("table %d: %+v", i, b)
		}
	}
	for _, reason := range []StackReason{StackNone, NumStackReasons} { // a packet would be counted as one that is forwarded, or elsewhere
		if err := f.SetSegments([]SegmentRoute{segmentRoute("fc00::/64", Behaviour{Kind: BehaviourStack, Reason: reason})}); err == nil {
			t.Errorf("the stack has packets for the reason %v", reason)
		}
	}
	for _, header := range []string{"", strings.Repeat("x", 39), strings.Repeat("x", 44), strings.Repeat("x", MaxBehaviourHeader+8)} {
		if err := f.SetSegments([]SegmentRoute{segmentRoute("fc00::/64", Behaviour{Kind: BehaviourEncapsulate, Header: header})}); err == nil {
			t.Errorf("a header of %d bytes is accepted", len(header))
		}
	}
}
