// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// keysOfGroups are keys whose first group is one of a few, so that groups are full.
func keysOfGroups(random *rand.Rand, groups uint32) segmentKey {
	return segmentKey{random.Uint64()&^(0xffffff<<32) | uint64(random.Uint32N(groups))<<32, random.Uint32()}
}

// checkKeys checks that the table has the keys of a map and no others, and that it says
// that places are free where no key needs them to be passed.
func checkKeys(t *testing.T, table keyTable, want map[segmentKey]uint32) {
	t.Helper()
	for k, number := range want {
		if place, ok := table.find(k); !ok || table.keys[place].Number != number {
			t.Fatalf("key %v is not found, or is of another flow", k)
		}
	}
	needed := make([]bool, len(table.groups))
	n := 0
	for k, place := range table.all() {
		n++
		for g := k.group() & table.mask(); g != place/keyGroup; g = (g + 1) & table.mask() {
			needed[g] = true
		}
	}
	if n != len(want) {
		t.Fatalf("%d keys, want %d", n, len(want))
	}
	for place := range uint32(len(table.keys)) {
		if octet := table.octet(place); octet == placeLeft && !needed[place/keyGroup] || octet == placeFree && needed[place/keyGroup] {
			t.Fatalf("place %d has the octet %d, passed by a key: %v", place, octet, needed[place/keyGroup])
		}
	}
}

// TestMeasuredKeys compares the table of keys with a map, over random changes, some of
// which fill groups; and another agent that finds the table with it.
func TestMeasuredKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	table := emptyKeyTable(1024)
	want := make(map[segmentKey]uint32)
	var keys []segmentKey
	for round := range 40_000 {
		if grow := random.IntN(700) > len(keys); grow {
			k := keysOfGroups(random, 100)
			if place, ok := table.vacancy(k); ok {
				table.enter(place, k, uint32(round))
				want[k] = uint32(round)
				keys = append(keys, k)
			}
		} else {
			i := random.IntN(len(keys))
			place, ok := table.find(keys[i])
			if !ok {
				t.Fatalf("round %d: a key is lost", round)
			}
			table.remove(place)
			delete(want, keys[i])
			keys = slices.Delete(keys, i, i+1)
		}
		if _, ok := table.find(keysOfGroups(random, 100)); ok {
			t.Fatalf("round %d: found a key that is not there", round)
		}
		if round%500 == 0 {
			checkKeys(t, table, want)
			table = newKeyTable(table.groups, table.keys)
		}
	}
	for _, k := range keys {
		place, _ := table.find(k)
		table.remove(place)
	}
	if i := slices.IndexFunc(table.groups, func(g uint64) bool { return g != 0 }); i >= 0 {
		t.Errorf("group %d of an empty table is %#x", i, table.groups[i])
	}
}

// TestMeasuredKeysCrowd checks that a key has a limited number of places.
func TestMeasuredKeysCrowd(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	table := emptyKeyTable(1024)
	want := make(map[segmentKey]uint32)
	for range keyProbes * keyGroup {
		k := keysOfGroups(random, 1)
		place, ok := table.vacancy(k)
		if !ok {
			t.Fatalf("no place after %d keys", len(want))
		}
		table.enter(place, k, 0)
		want[k] = 0
	}
	checkKeys(t, table, want)
	if place, ok := table.vacancy(keysOfGroups(random, 1)); ok {
		t.Errorf("place %d is where programs do not look", place)
	}
}

// TestMeasuredKeysSpread checks that the keys of flows whose SIDs differ in any one place are
// spread like random ones: of 65,536, some eight share 32 bits.
func TestMeasuredKeysSpread(t *testing.T) {
	const flows = 1 << 16
	random := rand.New(rand.NewPCG(7, 8))
	for _, layout := range []string{
		"fc00:%x::", "fc00:2:%x::", "fc00:2:3:%x::", "fc00:2:3:%x::1", "fc00:2:3:4:%x::", "fc00:2::%x:0", "fc00:2::%x",
		"fc00:2:3:%[2]x:%[3]x::", "fc00:%[2]x:3:%[3]x::", "fc00:2:%[2]x:%[3]x::e", "fc00:2:3:%[2]x::%[3]x", "fc00:2:3:%[4]x::",
	} {
		for where := range 4 {
			seeds := [2]uint64{random.Uint64(), random.Uint64() | 1}
			groups := make(map[uint32]int)
			for i := range flows {
				varies := addressWords(netip.MustParseAddr(strings.Split(fmt.Sprintf(layout+" %[2]x %[3]x %[4]x", i, i>>8, i&255, i>>8|i<<8&0xff00), " ")[0]))
				fixed := addressWords(netip.MustParseAddr("fc00:2:3:4::e"))
				f := selectedFlow{source: addressWords(netip.MustParseAddr("2001:db8::1"))}
				form := [][2]uint64{varies}
				switch where {
				case 1:
					form = [][2]uint64{varies, fixed, fixed}
				case 2:
					form = [][2]uint64{fixed, fixed, varies}
				case 3:
					f.source, form = varies, nil
				}
				groups[f.key(seeds, 0, form).group()]++
			}
			if len(groups) < flows-64 {
				t.Errorf("%s in place %d: %d flows share %d groups", layout, where, flows, len(groups))
			}
		}
	}
}

// TestMeasuredPlaces checks that keys which no table can hold are refused.
func TestMeasuredPlaces(t *testing.T) {
	m := &measuring{seeds: [2]uint64{1, 2}}
	for i := range keyProbes*keyGroup + 1 {
		m.flows = append(m.flows, selectedFlow{keys: []segmentKey{{head: 1 << 40, tail: i}}})
		places, err := m.places()
		if fits := i < keyProbes*keyGroup; fits && (err != nil || places < 2*uint32(len(m.flows))) || !fits && err == nil {
			t.Errorf("%d keys of one group: %d places, %v", len(m.flows), places, err)
		}
	}
}

// TestMeasuredUndo checks that a change that is undone leaves flows as they were.
func TestMeasuredUndo(t *testing.T) {
	whole, rest := colouredFlow(2), colouredFlow(2)
	rest.Path.Segments = rest.Path.Segments[1:]
	p := loadPrograms(t, measuringConfig(colouredFlow(1), rest), 1, fixedTime, hookIngressXDP)
	table := p.site.own.measured
	before, since, groups := table.known(), slices.Clone(table.flows.entries), slices.Clone(table.groups.entries)
	keys := slices.Clone(table.keys.entries)
	whole.Name, whole.Path.Mode = "another", srv6.ModeReduced // one of its forms is that of the other
	g, err := compile(measuringConfig(colouredFlow(3), whole), 0, ethernet)
	if err != nil {
		t.Fatal(err)
	}
	change, err := g.measure(p.maps, p.site.own, p.site.own, false)
	if err != nil {
		t.Fatal(err)
	}
	if during := table.known(); maps.Equal(before, during) {
		t.Error("the change entered no key")
	}
	if err := change.undo(); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(before, table.known()) || !slices.Equal(since, table.flows.entries) || !slices.Equal(groups, table.groups.entries) {
		t.Errorf("keys %v, before %v", table.known(), before)
	}
	for k, place := range before {
		if table.keys.entries[place] != keys[place] {
			t.Errorf("key %v is of flow %d now", k, table.keys.entries[place].Number)
		}
	}
}

// TestMeasuredApart gives each flow counters of its own where a flow's second form becomes another
// flow, in either order.
func TestMeasuredApart(t *testing.T) {
	whole, rest := colouredFlow(1), colouredFlow(1)
	rest.Name, rest.Path.Segments = "rest", rest.Path.Segments[1:]
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		both := whole
		both.Path.Mode = srv6.ModeReduced
		p := loadPrograms(t, measuringConfig(both), 1, fixedTime, hookIngressXDP)
		list := []model.MeasuredFlow{whole, rest}
		p.measure(t, measuringConfig(list[order[0]], list[order[1]]))
		table := p.site.own.measured
		if a, b := table.numbers[whole.Name], table.numbers[rest.Name]; a.number == b.number || len(a.places) != 1 || len(b.places) != 1 || a.places[0] == b.places[0] {
			t.Errorf("order %v: counted at %+v and %+v", order, a, b)
		}
		for _, place := range table.known() {
			if name := whole.Name; table.keys.entries[place].Number != table.numbers[name].number && table.keys.entries[place].Number != table.numbers[rest.Name].number {
				t.Errorf("order %v: place %d is of flow %d", order, place, table.keys.entries[place].Number)
			}
		}
	}
}

// TestMeasuredTwice gives two flows one key, which configurations do not: the second one is refused,
// whether the first one is counted already or new, and that stays as it was.
func TestMeasuredTwice(t *testing.T) {
	red, again, other := colouredFlow(1), colouredFlow(1), colouredFlow(2)
	again.Name = "again"
	class := uint8(0x20)
	other.TrafficClass = &class // flows compete for packets, so each change begins the counting anew
	counts := func(p *programs) (since uint64) {
		for _, c := range p.site.own.measured.flows.entries {
			since = max(since, c.Since)
		}
		return since
	}
	for _, first := range [][]model.MeasuredFlow{{red}, {other}} {
		p := loadPrograms(t, measuringConfig(first...), 1, fixedTime, hookIngressXDP)
		known, since := p.site.own.measured.known(), counts(p)
		g, err := compile(measuringConfig(red, other, again), 0, ethernet)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.measure(p.maps, p.site.own, p.site.own, false); err == nil || !strings.Contains(err.Error(), `measured flows "1" and "again" have one key`) {
			t.Errorf("after %s: %v", first[0].Name, err)
		}
		if !maps.Equal(known, p.site.own.measured.known()) || counts(p) != since {
			t.Errorf("after %s: flow %d is counted since %d, before since %d", first[0].Name, len(known), counts(p), since)
		}
	}
}

// colouredFlow are flows that differ by their second segment.
func colouredFlow(i int) model.MeasuredFlow {
	path := measuredPath(3)
	path[1] = netip.MustParseAddr(fmt.Sprintf("2001:db8:6:%x::e0", i))
	return model.MeasuredFlow{Name: fmt.Sprint(i), Direction: model.DirectionIn, Path: srv6.Path{Segments: path}}
}

// TestMeasuredWhileFlowsChange checks that every packet of flows that stay is counted
// while others come and go, in places before and after theirs.
func TestMeasuredWhileFlowsChange(t *testing.T) {
	const stay, most, changes = 8, 36, 150 // all that change twice are as many as there is room for
	random := rand.New(rand.NewPCG(3, 4))
	flows := make([]model.MeasuredFlow, stay)
	for i := range flows {
		flows[i] = colouredFlow(i)
	}
	p := loadPrograms(t, measuringConfig(flows...), 1, fixedTime, hookIngressXDP)
	block := blockOf(fixedTime, time.Second)
	var sent [stay]uint64
	var ended atomic.Bool
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; !ended.Load(); i = (i + 1) % stay {
			list := flows[i].Path.Segments
			frame := measuredPacket(t, list[2], reversed(list), 0)
			frame[14], frame[15] = 0x60, model.DefaultMarking().Colours[block&1]<<4
			if _, err := p.xdp.Run(&ebpf.RunOptions{Data: frame}); err != nil {
				t.Error(err)
				return
			}
			sent[i]++
		}
	})
	for range changes {
		now := slices.Clone(flows)
		for range random.IntN(most - stay) {
			now = append(now, colouredFlow(stay+len(now)*changes+random.IntN(changes)))
		}
		p.measure(t, measuringConfig(now...))
	}
	ended.Store(true)
	running.Wait()
	for i, n := range sent {
		if got := p.counts(t, fmt.Sprint(i), block); got.Packets != n || n == 0 {
			t.Errorf("flow %d: counted %d of %d packets", i, got.Packets, n)
		}
	}
}

// TestMeasuredGrowth checks when flows need other tables: where they do not fit beside
// those that are counted.
func TestMeasuredGrowth(t *testing.T) {
	var few, many []model.MeasuredFlow
	for i := range int(fewestFlows) + 1 {
		few, many = append(few, colouredFlow(1000+i)), append(many, colouredFlow(i))
	}
	p := loadPrograms(t, measuringConfig(many[:40]...), 1, fixedTime, hookIngressXDP)
	table := p.site.own.measured
	for _, tt := range []struct {
		name  string
		flows []model.MeasuredFlow
		fits  bool
	}{
		{"the same", many[:40], true},
		{"as many as there is room for", many[:64], true},
		{"more", many, false},
		{"others, beside the first", few[:24], true},
		{"too many others, beside the first", few[:25], false},
	} {
		g, err := compile(measuringConfig(tt.flows...), 0, ethernet)
		if err != nil {
			t.Fatal(err)
		}
		g.measuring.hash(measuredSeedsOf(t, p))
		if fits := table.takes(&g.measuring); fits != tt.fits {
			t.Errorf("%s: fits %v", tt.name, fits)
		}
	}
}

func measuredSeedsOf(t *testing.T, p *programs) [2]uint64 {
	t.Helper()
	seeds, err := measuredSeeds(p.maps)
	if err != nil {
		t.Fatal(err)
	}
	return seeds
}
