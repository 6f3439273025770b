// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/testnet"
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
				varies := bpf.AddressWords(
					netip.MustParseAddr(strings.Split(fmt.Sprintf(layout+" %[2]x %[3]x %[4]x", i, i>>8, i&255, i>>8|i<<8&0xff00), " ")[0]),
				)
				fixed := bpf.AddressWords(netip.MustParseAddr("fc00:2:3:4::e"))
				f := selectedFlow{source: bpf.AddressWords(netip.MustParseAddr("2001:db8::1"))}
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
	m := &Flows{seeds: [2]uint64{1, 2}}
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
	whole, rest := flowOf(2), flowOf(2)
	rest.Path.Segments = rest.Path.Segments[1:]
	shared, table := opened(t, measurementOf(flowOf(1), rest))
	before, since, groups := table.known(), slices.Clone(table.flows.entries), slices.Clone(table.groups.entries)
	keys := slices.Clone(table.keys.entries)
	whole.Name, whole.Path.Mode = "another", srv6.ModeReduced // one of its forms is that of the other
	m := Compile(measurementOf(flowOf(3), whole))
	change, err := m.Begin(shared, table, table, servedDigest, false)
	if err != nil {
		t.Fatal(err)
	}
	if during := table.known(); maps.Equal(before, during) {
		t.Error("the change entered no key")
	}
	if err := change.Undo(); err != nil {
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
	whole, rest := flowOf(1), flowOf(1)
	rest.Name, rest.Path.Segments = "rest", rest.Path.Segments[1:]
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		both := whole
		both.Path.Mode = srv6.ModeReduced
		shared, table := opened(t, measurementOf(both))
		list := []model.MeasuredFlow{whole, rest}
		change(t, shared, table, measurementOf(list[order[0]], list[order[1]]))
		if a, b := table.numbers[whole.Name], table.numbers[rest.Name]; a.number == b.number || len(a.places) != 1 || len(b.places) != 1 ||
			a.places[0] == b.places[0] {
			t.Errorf("order %v: counted at %+v and %+v", order, a, b)
		}
		for _, place := range table.known() {
			if name := whole.Name; table.keys.entries[place].Number != table.numbers[name].number &&
				table.keys.entries[place].Number != table.numbers[rest.Name].number {
				t.Errorf("order %v: place %d is of flow %d", order, place, table.keys.entries[place].Number)
			}
		}
	}
}

// TestMeasuredTwice gives two flows one key, which configurations do not: the second one is refused,
// whether the first one is counted already or new, and that stays as it was.
func TestMeasuredTwice(t *testing.T) {
	red, again, other := flowOf(1), flowOf(1), flowOf(2)
	again.Name = "again"
	class := uint8(0x20)
	other.TrafficClass = &class // flows compete for packets, so each change begins the counting anew
	counts := func(table *Table) (since uint64) {
		for _, c := range table.flows.entries {
			since = max(since, c.Since)
		}
		return since
	}
	for _, first := range [][]model.MeasuredFlow{{red}, {other}} {
		shared, table := opened(t, measurementOf(first...))
		known, since := table.known(), counts(table)
		m := Compile(measurementOf(red, other, again))
		if _, err := m.Begin(shared, table, table, servedDigest, false); err == nil ||
			!strings.Contains(err.Error(), `measured flows "1" and "again" have one key`) {
			t.Errorf("after %s: %v", first[0].Name, err)
		}
		if !maps.Equal(known, table.known()) || counts(table) != since {
			t.Errorf("after %s: flow %d is counted since %d, before since %d", first[0].Name, len(known), counts(table), since)
		}
	}
}

// servedDigest stands for the interfaces at which packets are counted.
const servedDigest = 1

// measurementOf measures flows from one source.
func measurementOf(flows ...model.MeasuredFlow) model.Measurement {
	for i := range flows {
		flows[i].Source = netip.MustParseAddr("2001:db8:a::1")
	}
	return model.Measurement{Block: time.Second, Flows: flows}
}

// opened makes the maps of measured flows, and counts these.
func opened(t *testing.T, cfg model.Measurement) (shared bpf.Maps, table *Table) {
	t.Helper()
	testnet.NeedRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := bpf.LoadEgressTC()
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string, entries uint32) *ebpf.Map {
		spec.Maps[name].MaxEntries = entries
		m, err := ebpf.NewMap(spec.Maps[name])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	shared = bpf.Maps{bpf.MapMarkings: create(bpf.MapMarkings, 1)}
	m := Compile(cfg)
	sizes, _, err := m.Sizes(nil, shared, ebpf.MustPossibleCPU())
	if err != nil {
		t.Fatal(err)
	}
	all := make(bpf.Maps)
	for name, size := range sizes {
		all[name] = create(name, size)
	}
	if table, err = NewTable(all); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	first, err := m.Begin(shared, table, nil, servedDigest, false)
	if err != nil {
		t.Fatal(err)
	}
	first.Finish()
	return shared, table
}

// change counts other flows.
func change(t *testing.T, shared bpf.Maps, table *Table, cfg model.Measurement) {
	t.Helper()
	m := Compile(cfg)
	c, err := m.Begin(shared, table, table, servedDigest, false)
	if err != nil {
		t.Fatal(err)
	}
	c.Finish()
}

// flowOf are flows that differ by their second segment.
func flowOf(i int) model.MeasuredFlow {
	path := []netip.Addr{netip.MustParseAddr("2001:db8:5:1::e0"), {}, netip.MustParseAddr("2001:db8:5:3::e0")}
	path[1] = netip.MustParseAddr(fmt.Sprintf("2001:db8:6:%x::e0", i))
	return model.MeasuredFlow{Name: fmt.Sprint(i), Direction: model.DirectionIn, Path: srv6.Path{Segments: path}}
}

// TestMeasuredGrowth checks when flows need other tables: where they do not fit beside
// those that are counted.
func TestMeasuredGrowth(t *testing.T) {
	var few, many []model.MeasuredFlow
	for i := range int(fewestFlows) + 1 {
		few, many = append(few, flowOf(1000+i)), append(many, flowOf(i))
	}
	shared, table := opened(t, measurementOf(many[:40]...))
	seeds, err := seedsOf(shared)
	if err != nil {
		t.Fatal(err)
	}
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
		m := Compile(measurementOf(tt.flows...))
		m.hash(seeds)
		if fits := table.takes(&m); fits != tt.fits {
			t.Errorf("%s: fits %v", tt.name, fits)
		}
	}
}
