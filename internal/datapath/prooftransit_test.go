// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
)

// provingConfig is a node with a key of namespace 123; the one that encapsulates inserts
// proofs inline.
func provingConfig(key *pot.Key) model.NodeConfig {
	cfg := rightConfig()
	cfg.Namespaces[0].Proof = &model.Proof{Key: key}
	if key.Encapsulates() {
		cfg.Encapsulations = []model.Encapsulation{{Name: "a", Interface: 1, Mode: model.ModeInline,
			Options: []model.InsertedOption{{Proof: &model.ProofOption{Namespace: 123}}}}}
	}
	return cfg
}

// verdictOf runs an ingress program, and returns the outcome that it counts.
func (p *programs) verdictOf(t testing.TB, program *ebpf.Program, frame []byte) (model.Outcome, []byte) {
	t.Helper()
	before := p.snapshotCounters(t)
	verdict, out := run(t, program, frame, 0)
	outcome := model.NumOutcomes
	for counter, n := range moved(before, p.snapshotCounters(t)) {
		if counter < bpf.ABICounterCOUNTER_EGRESS && n == 1 {
			outcome = model.Outcome(counter)
		}
	}
	if dropped(program, verdict) != (outcome == model.OutcomePotDropped) {
		t.Errorf("%v: verdict %d", outcome, int32(verdict))
	}
	return outcome, out
}

// TestProofOfPath sends packets through the programs of four nodes: along the path, past
// a node, twice by one, again, and changed on the way.
func TestProofOfPath(t *testing.T) {
	onOneCPU(t)
	clock := time.Now().UnixNano() + int64(taiUTC) // numbers begin at the time
	keys := testKeys(t, 1)
	nodes := make([]*programs, len(keys))
	for i, key := range keys {
		nodes[i] = loadPrograms(t, provingConfig(key), 1, clock, hookIngressXDP, hookIngressTC, hookEgressTC)
	}
	dropping := provingConfig(keys[3])
	dropping.Namespaces[0].Proof.DropRejected = true
	strict := loadPrograms(t, dropping, 1, clock, hookIngressXDP, hookIngressTC)
	started := func() []byte {
		_, frame := run(t, nodes[0].tcOut, plainPacket(7), 0)
		return frame
	}
	flipped := func(frame []byte) []byte {
		frame[atTrace+4+15] ^= 1
		return frame
	}
	for name, test := range map[string]struct {
		path   []int
		change func([]byte) []byte
		again  bool
		want   model.Outcome
	}{
		"the path":                {path: []int{1, 2}, want: model.OutcomePotAccepted},
		"another order":           {path: []int{2, 1}, want: model.OutcomePotAccepted},
		"a node skipped":          {path: []int{1}, want: model.OutcomePotRejected},
		"all nodes skipped":       {want: model.OutcomePotRejected},
		"a node passed twice":     {path: []int{1, 1, 2}, want: model.OutcomePotRejected},
		"one for another":         {path: []int{1, 1}, want: model.OutcomePotRejected},
		"the last passed twice":   {path: []int{1, 2, 3}, want: model.OutcomePotRejected},
		"changed on the way":      {path: []int{1, 2}, change: flipped, want: model.OutcomePotRejected},
		"again":                   {path: []int{1, 2}, again: true, want: model.OutcomePotReplayed},
		"out of range on the way": {path: []int{1, 2}, change: set(atTrace+4, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), want: model.OutcomePotInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ingress := range []func(*programs) *ebpf.Program{
				func(p *programs) *ebpf.Program { return p.xdp }, func(p *programs) *ebpf.Program { return p.tcIn },
			} {
				for _, last := range []*programs{nodes[3], strict} {
					frame := started()
					for i, node := range test.path {
						outcome, out := nodes[node].verdictOf(t, ingress(nodes[node]), frame)
						if outcome != model.OutcomePotUpdated && !(node == 3 && outcome == model.OutcomePotAccepted) {
							t.Errorf("node %d: %v", node, outcome)
						}
						if frame = out; i == 0 && test.change != nil {
							frame = test.change(frame)
						}
						if test.want == model.OutcomePotInvalid {
							break
						}
					}
					if test.again {
						if outcome, _ := last.verdictOf(t, ingress(last), frame); outcome != model.OutcomePotAccepted {
							t.Errorf("first: %v", outcome)
						}
					}
					want := test.want
					if last == strict && want != model.OutcomePotAccepted {
						want = model.OutcomePotDropped
					}
					before := last.snapshotCounters(t)
					if outcome, _ := last.verdictOf(t, ingress(last), frame); outcome != want {
						t.Errorf("last: %v, want %v", outcome, want)
					}
					if option := bpf.ABICounterCOUNTER_INGRESS_OPTIONS + bpf.ABICounter(test.want); want != test.want &&
						moved(before, last.snapshotCounters(t))[option] != 1 {
						t.Errorf("a dropped packet's option is not counted as %v", test.want)
					}
				}
			}
		})
	}
}

// TestProofsOfOffloadedPackets: the segments of one would have the same number.
func TestProofsOfOffloadedPackets(t *testing.T) {
	p := loadPrograms(t, provingConfig(testKeys(t, 1)[0]), 1, fixedTime, hookEgressTC)
	frame := plainPacket(7)
	before := p.snapshotCounters(t)
	out := make([]byte, len(frame)+64)
	if _, err := p.tcOut.Run(&ebpf.RunOptions{Data: frame, DataOut: out, Context: &skb{GSOSize: 1000, GSOSegs: 3}}); err != nil {
		t.Fatal(err)
	}
	if got := moved(before, p.snapshotCounters(t)); got[bpf.ABICounterCOUNTER_EGRESS+bpf.ABICounter(model.OutcomeEncapSkippedGSO)] != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestNumbersOfProofs starts proofs on every CPU at once: no number is given twice, and
// none is far behind the newest.
func TestNumbersOfProofs(t *testing.T) {
	cpus := onOneCPU(t)
	keys := testKeys(t, 2)
	p := loadPrograms(t, provingConfig(keys[0]), 1, fixedTime, hookEgressTC)
	first := proofIn(t, mustInsert(t, p)).PktID
	if age := time.Duration(time.Now().UnixNano()-int64(first)*numberUnit) * time.Nanosecond; age < 0 || age > time.Minute {
		t.Errorf("the first number is %v old", age)
	}
	const each = 3000
	all := make([][]uint64, len(cpus))
	var group sync.WaitGroup
	for i, cpu := range cpus {
		group.Go(func() {
			if !stayOn(t, cpu) {
				return
			}
			for range each {
				proof := proofIn(t, mustInsert(t, p))
				all[i] = append(all[i], proof.PktID)
				if proof.Cumulative != keys[0].Update(proof.PktID, 0) || proof.Namespace != 123 || proof.Flags != 0 {
					t.Errorf("%v", proof)
				}
			}
		})
	}
	group.Wait()
	numbers := slices.Concat(all...)
	slices.Sort(numbers)
	if distinct := len(slices.Compact(slices.Clone(numbers))); distinct != each*len(cpus) {
		t.Errorf("%d packets have %d numbers", each*len(cpus), distinct)
	}
	if len(cpus) < 2 {
		return
	}
	// A CPU that was idle gives up what it has left.
	moveTo(t, cpus[0])
	mustInsert(t, p)
	moveTo(t, cpus[1])
	var newest uint64
	for range int(bpf.ABIProofBoundPROOF_MOST_LAG) + 200 {
		newest = proofIn(t, mustInsert(t, p)).PktID
	}
	moveTo(t, cpus[0])
	if late := proofIn(t, mustInsert(t, p)).PktID; late+uint64(bpf.ABIProofBoundPROOF_BLOCK) < newest {
		t.Errorf("the number %d comes after %d", late, newest)
	}
}

func mustInsert(t testing.TB, p *programs) []byte {
	t.Helper()
	frame := plainPacket(7)
	_, out := run(t, p.tcOut, frame, 0)
	if len(out) == len(frame) {
		t.Error("no proof was inserted")
	}
	return out
}

// arriving is a packet that has passed all nodes but the last.
func arriving(keys []*pot.Key, number uint64) []byte {
	proof := ioam.ProofOfTransit{Namespace: 123, PktID: number}
	for _, k := range keys[:len(keys)-1] {
		proof.Cumulative = k.Update(number, proof.Cumulative)
	}
	return provedFrame(proof)
}

// TestAcceptedOnce gives numbers that share a word to all CPUs at once, twice: each is
// accepted the first time, and none the second time.
func TestAcceptedOnce(t *testing.T) {
	cpus := onOneCPU(t)
	keys := testKeys(t, 3)
	p := loadPrograms(t, provingConfig(keys[3]), 1, fixedTime, hookIngressTC)
	const numbers = 30_000
	frames := make([][]byte, numbers)
	for i := range frames {
		frames[i] = arriving(keys, firstNumber+uint64(i))
	}
	for _, want := range []model.Outcome{model.OutcomePotAccepted, model.OutcomePotReplayed} {
		before := p.snapshotCounters(t)
		var next atomic.Int32
		var group sync.WaitGroup
		for _, cpu := range cpus {
			group.Go(func() {
				if !stayOn(t, cpu) {
					return
				}
				for i := next.Add(1) - 1; i < numbers; i = next.Add(1) - 1 {
					run(t, p.tcIn, frames[i], 0)
				}
			})
		}
		group.Wait()
		if got := moved(before, p.snapshotCounters(t)); got[bpf.ABICounter(want)] != numbers {
			t.Errorf("%d numbers on %d CPUs, want all %v: %v", numbers, len(cpus), want, got)
		}
	}
}

// TestWindowOfProofs compares the window with a plain list of numbers: jumps ahead, small
// and larger than the window, numbers at its far edge, and numbers that the clock has not
// reached.
func TestWindowOfProofs(t *testing.T) {
	onOneCPU(t)
	keys := testKeys(t, 4)
	p := loadPrograms(t, provingConfig(keys[3]), 1, fixedTime, hookIngressXDP)
	rng := rand.New(rand.NewPCG(61, 16))
	taken, groups := make(map[uint64]bool), make(map[uint64]uint64)
	greatest := uint64(firstNumber)
	seen := make(map[model.Outcome]int)
	for range 6000 {
		number := greatest
		switch rng.IntN(9) {
		case 0:
			number += rng.Uint64N(200)
		case 1:
			number += 1
		case 2:
			number += rng.Uint64N(200_000)
		case 3:
			number -= 65536 - rng.Uint64N(40)
		case 4:
			number -= 65536 + rng.Uint64N(1000)
		case 5:
			number = lastNumber - 40 + rng.Uint64N(80)
		default:
			number -= rng.Uint64N(40)
		}
		group, want := number/16, model.OutcomePotAccepted
		switch last := groups[group%4096]; {
		case group < last:
			want = model.OutcomePotTooOld
		case group > last && number > lastNumber:
			want = model.OutcomePotAhead
		case taken[number]:
			want = model.OutcomePotReplayed
		default:
			taken[number], groups[group%4096] = true, group
			if number < lastNumber-40 {
				greatest = max(greatest, number)
			}
		}
		seen[want]++
		if got, _ := p.verdictOf(t, p.xdp, arriving(keys, number)); got != want {
			t.Fatalf("%d, with %d accepted: %v, want %v", number, greatest, got, want)
		}
	}
	for _, o := range []model.Outcome{model.OutcomePotAccepted, model.OutcomePotReplayed, model.OutcomePotTooOld, model.OutcomePotAhead} {
		if seen[o] < 100 {
			t.Errorf("%v: only %d times", o, seen[o])
		}
	}
}

// TestForgedProofAhead: right proofs of numbers far ahead, as somebody who sees packets before
// and after nodes can make them, do not end the acceptance of other packets.
func TestForgedProofAhead(t *testing.T) {
	onOneCPU(t)
	keys := testKeys(t, 4)
	p := loadPrograms(t, provingConfig(keys[3]), 1, fixedTime, hookIngressXDP)
	expect := func(number uint64, want model.Outcome) {
		t.Helper()
		if got, _ := p.verdictOf(t, p.xdp, arriving(keys, number)); got != want {
			t.Errorf("%d: %v, want %v", number, got, want)
		}
	}
	const packets = 100
	for i := range uint64(packets) {
		expect(firstNumber+i, model.OutcomePotAccepted)
	}
	expect(pot.Prime-1, model.OutcomePotAhead)
	expect(lastNumber+1, model.OutcomePotAhead)
	// One that clocks explain is accepted, and takes one place of the window.
	expect(lastNumber, model.OutcomePotAccepted)
	refused := 0
	for i := range uint64(65536) {
		switch got, _ := p.verdictOf(t, p.xdp, arriving(keys, firstNumber+packets+i)); got {
		case model.OutcomePotAccepted:
		case model.OutcomePotTooOld:
			refused++
		default:
			t.Fatalf("packet %d: %v", i, got)
		}
	}
	if refused != 16 {
		t.Errorf("after a forged packet, %d of 65536 are refused, want 16", refused)
	}
	// When numbers have followed the time beyond it, all are accepted again.
	after := followingNumber(firstNumber+packets+65536, fixedTime-int64(taiUTC)+2e9, time.Second)
	if after%65536 != (firstNumber+packets)%65536 || after <= lastNumber {
		t.Errorf("the number that follows the time is %d", after)
	}
}

// TestForgedWindow: who makes right proofs of numbers ahead, one for each place of the window, keeps
// all others from being accepted, but not for longer than clocks may differ.
func TestForgedWindow(t *testing.T) {
	onOneCPU(t)
	keys, cfg := testKeys(t, 4), provingConfig(testKeys(t, 4)[3])
	const ahead = 3 * time.Second
	cfg.Namespaces[0].Proof.ClockDifference = ahead
	p := loadPrograms(t, cfg, 1, 0, hookIngressXDP)
	var kernel unix.Timex
	if _, err := unix.Adjtimex(&kernel); err != nil {
		t.Fatal(err)
	}
	if err := p.maps[bpf.MapClock].Put(uint32(0), bpf.ABIClockState{TaiOffset: int64(kernel.Tai) * 1e9}); err != nil {
		t.Fatal(err)
	}
	now := func() uint64 { return uint64(time.Now().UnixNano() / numberUnit) }
	begin := time.Now()
	most := uint64(begin.Add(ahead).UnixNano() / numberUnit)
	for i := range uint64(bpf.ABIProofBoundPROOF_WORDS) {
		if got, _ := p.verdictOf(t, p.xdp, arriving(keys, most+60e9/16-16*i)); got != model.OutcomePotAhead {
			t.Fatalf("forged packet %d, a minute further ahead: %v", i, got)
		}
		if got, _ := p.verdictOf(t, p.xdp, arriving(keys, most-16*i)); got != model.OutcomePotAccepted {
			t.Fatalf("forged packet %d: %v", i, got)
		}
	}
	for range 100 {
		got, _ := p.verdictOf(t, p.xdp, arriving(keys, now()))
		if got != model.OutcomePotTooOld && time.Since(begin) < ahead-10*time.Millisecond {
			t.Errorf("%v after the first forged packet: %v", time.Since(begin), got)
		}
	}
	time.Sleep(time.Until(begin.Add(ahead)))
	for range 1000 {
		if got, _ := p.verdictOf(t, p.xdp, arriving(keys, now())); got != model.OutcomePotAccepted {
			t.Fatalf("%v after the last forged packet: %v", time.Since(begin)-ahead, got)
		}
	}
}

// TestSlotsOfProofs: a profile keeps its slot; another one takes one that neither
// generation uses; none is taken away from a profile while there are others.
func TestSlotsOfProofs(t *testing.T) {
	slots := make([]uint64, 4)
	takeSlot := func(profile uint64, used ...uint64) uint32 {
		t.Helper()
		set := map[uint64]bool{0: false, profile: true}
		for _, u := range used {
			set[u] = true
		}
		slot, err := slotFor(slots, profile, set)
		if err != nil {
			t.Fatal(err)
		}
		slots[slot] = profile
		return slot
	}
	for i, profile := range []uint64{11, 12, 13, 14} {
		if got := takeSlot(profile); got != uint32(i) {
			t.Errorf("profile %d has slot %d, want %d", profile, got, i)
		}
	}
	if got := takeSlot(12, 11); got != 1 {
		t.Errorf("profile 12 moved to slot %d", got)
	}
	if got := takeSlot(15, 11, 12); got != 2 {
		t.Errorf("profile 15 has slot %d, want that of 13", got)
	}
	if _, err := slotFor(slots, 16, map[uint64]bool{11: true, 12: true, 15: true, 14: true}); err == nil {
		t.Error("a slot in use was taken")
	}
}

// TestNumbersFollowClock: the numbers of a profile follow the time, at the place in the window
// that they have, and go back only if the clock was set back by more than clocks may differ.
func TestNumbersFollowClock(t *testing.T) {
	onOneCPU(t)
	key := testKeys(t, 4)[0]
	p := loadPrograms(t, provingConfig(key), 1, fixedTime, hookEgressTC)
	m := p.maps[bpf.MapProofs]
	slots, err := readSlots(m)
	if err != nil {
		t.Fatal(err)
	}
	slot := uint32(slices.Index(slots, slotOf(key.Profile)))
	now := time.Now().UnixNano()
	clock := uint64(now / numberUnit)
	for _, tt := range []struct {
		name    string
		next    uint64
		follows bool
	}{
		{"began with a clock that was behind", 1000, true},
		{"a second ago", clock - 1e9/16, true},
		{"a moment ago: the CPU's other numbers are ahead", clock - 1, false},
		{"now", clock, false},
		{"the clock was set back a little", clock + 2e9/16 - 100, false},
		{"the clock was set back", clock + 2e9/16 + 1, true},
		{"began with a clock that was ahead", clock + 1e12, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entry := bpf.ABIProof{Profile: slotOf(key.Profile), Next: tt.next}
			entry.Words[7] = 17
			if err := m.Put(slot, entry); err != nil {
				t.Fatal(err)
			}
			if err := p.maps[bpf.MapProofBlocks].Put(slot, make([]bpf.ABIProofBlock, ebpf.MustPossibleCPU())); err != nil {
				t.Fatal(err)
			}
			if first := proofIn(t, mustInsert(t, p)).PktID; first != tt.next {
				t.Fatalf("the first number is %d", first)
			}
			for range 2 {
				if err := followClock(m, map[uint64]time.Duration{slotOf(key.Profile): 2 * time.Second}, now); err != nil {
					t.Error(err)
				}
			}
			number, place := proofIn(t, mustInsert(t, p)).PktID, (tt.next+64)%numberWindow
			switch {
			case !tt.follows:
				if number != tt.next+1 {
					t.Errorf("the number is %d, want %d", number, tt.next+1)
				}
			case number < clock || number >= clock+numberWindow || number%numberWindow != place:
				t.Errorf("the number is %d, want one of %d and %d more, at the place %d", number, clock, numberWindow, place)
			}
			if err := m.Lookup(slot, &entry); err != nil || entry.Next < clock || entry.Words[7] != 17 || entry.Profile != slotOf(key.Profile) {
				t.Errorf("%v: the next number is %d, at %d; word %d", err, entry.Next, clock, entry.Words[7])
			}
		})
	}
}

// slotOf names a profile in the map of numbers.
func slotOf(profile uint64) uint64 { return profile | 1<<63 }
