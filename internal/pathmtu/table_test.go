// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
)

var start = time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)

func count(t *Table, r Result) uint64 {
	i := slices.IndexFunc(t.Counts(), func(c Count) bool { return c.Result == r })
	return t.Counts()[i].Messages
}

func TestHear(t *testing.T) {
	other := netip.MustParseAddr("2001:db8:ff::9")
	tunnels := []Tunnel{{source, destination, 1700}, {other, destination, 1600}, {source, other, 9000}}
	longer := func(m []byte) []byte { m[12], m[13] = 0, 0; return m } // the packet does not state its length
	for _, test := range []struct {
		name    string
		tunnels []Tunnel
		message []byte
		result  Result
		mtu     int
	}{
		{"lowered", tunnels, tooBig(1500), Lowered, 1500},
		{"to the minimum", tunnels, tooBig(1280), Lowered, 1280},
		{"below the minimum", tunnels, tooBig(1279), BelowMinimum, 0},
		{"zero", tunnels, tooBig(0), BelowMinimum, 0},
		{"one less than the packet", tunnels, tooBig(1599), Lowered, 1599},
		{"the packet fits", tunnels, tooBig(1600), Implausible, 0},
		{"the largest number", tunnels, tooBig(1<<32 - 1), Implausible, 0},
		{"no less than the interface's", tunnels, longer(tooBig(1700)), Unchanged, 0},
		{"less than the largest interface's", tunnels, longer(tooBig(1699)), Lowered, 1699},
		{"the interface's is not known", []Tunnel{{source, destination, 0}}, longer(tooBig(9000)), Lowered, 9000},
		{"beyond every packet", []Tunnel{{source, destination, 0}}, longer(tooBig(1 << 20)), Unchanged, 0},
		{"no tunnel", nil, tooBig(1500), Foreign, 0},
		{"another source", []Tunnel{{other, destination, 1700}}, tooBig(1500), Foreign, 0},
		{"another destination", []Tunnel{{source, other, 1700}}, tooBig(1500), Foreign, 0},
		{"not a tunnel's packet", tunnels, func() []byte { m := tooBig(1500); m[14] = 6; return m }(), Foreign, 0},
		{"malformed", tunnels, []byte{2}, Malformed, 0},
	} {
		var table Table
		if got := table.Hear(test.message, test.tunnels, start); got != test.result {
			t.Errorf("%s: %v, want %v", test.name, got, test.result)
		}
		if got := table.MTU(destination); got != test.mtu || table.MTU(other) != 0 {
			t.Errorf("%s: the path MTU is %d, and %d to another; want %d and 0", test.name, got, table.MTU(other), test.mtu)
		}
		if changed := table.TakeChanged(); changed[destination] != (test.result == Lowered) {
			t.Errorf("%s: changed %v", test.name, changed)
		}
		for r := range numResults {
			if n := count(&table, r); (n == 1) != (r == test.result) || n > 1 {
				t.Errorf("%s: %v was counted %d times", test.name, r, n)
			}
		}
	}
}

// A path MTU falls step by step, and only rises when it expires.
func TestLifetime(t *testing.T) {
	tunnels := []Tunnel{{source, destination, 1700}}
	var table Table
	steps := []struct {
		after  time.Duration
		mtu    uint32
		result Result
		want   int
	}{
		{0, 1500, Lowered, 1500},
		{time.Minute, 1550, Unchanged, 1500},
		{2 * time.Minute, 1400, Lowered, 1400},
		{11 * time.Minute, 1400, Unchanged, 1400}, // confirmed: its lifetime starts again
		{12 * time.Minute, 1450, Unchanged, 1400}, // says nothing about the narrowest link
	}
	for _, s := range steps {
		now := start.Add(s.after)
		table.Expire(now)
		if got := table.Hear(tooBig(s.mtu), tunnels, now); got != s.result || table.MTU(destination) != s.want {
			t.Errorf("after %v: %v and %d, want %v and %d", s.after, got, table.MTU(destination), s.result, s.want)
		}
	}
	table.TakeChanged()
	table.Expire(start.Add(21*time.Minute - 1))
	if table.MTU(destination) != 1400 || table.TakeChanged() != nil {
		t.Error("forgotten too early")
	}
	table.Expire(start.Add(21 * time.Minute))
	if table.MTU(destination) != 0 || !table.TakeChanged()[destination] || len(table.Paths()) != 0 {
		t.Error("not forgotten")
	}
	if got := table.Hear(tooBig(1500), tunnels, start.Add(22*time.Minute)); got != Lowered {
		t.Errorf("found again: %v", got)
	}
}

// The table stays as small as the configuration, whatever tunnels existed before.
func TestTableIsBounded(t *testing.T) {
	var table Table
	for i := range 100 {
		to := netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 15: byte(i)})
		m := tooBig(1500)
		copy(m[32:], to.AsSlice())
		tunnels := []Tunnel{{source, to, 1700}, {source, destination, 1700}}
		if got := table.Hear(m, tunnels, start); got != Lowered {
			t.Fatalf("%d: %v", i, got)
		}
		if n := len(table.Paths()); n > len(tunnels) {
			t.Fatalf("%d paths of %d tunnels", n, len(tunnels))
		}
	}
	var many []Path
	for i := range 2 * model.MaxEncapsulations {
		many = append(many, Path{netip.AddrFrom16([16]byte{0x20, 14: byte(i >> 8), 15: byte(i)}), 1500, instant.Of(start.Add(time.Minute))})
	}
	table.Restore(many, start)
	if n := len(table.Paths()); n > model.MaxEncapsulations+2 {
		t.Errorf("%d paths restored", n)
	}
}

func TestRestore(t *testing.T) {
	address := func(i byte) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 15: i}) }
	var table Table
	table.Restore([]Path{
		{address(1), 1500, instant.Of(start.Add(time.Minute))},
		{address(2), 1500, instant.Of(start)},                    // expired
		{address(3), 1500, instant.Of(start.Add(2 * time.Hour))}, // the clock was set back
		{address(4), 1279, instant.Of(start.Add(time.Minute))},
		{address(5), 1 << 20, instant.Of(start.Add(time.Minute))},
		{netip.Addr{}, 1500, instant.Of(start.Add(time.Minute))},
	}, start)
	want := []Path{{address(1), 1500, instant.Of(start.Add(time.Minute))}, {address(3), 1500, instant.Of(start.Add(Lifetime))}}
	if got := table.Paths(); !slices.Equal(got, want) {
		t.Errorf("restored %v, want %v", got, want)
	}
}
