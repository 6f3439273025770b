// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// edgeNumberAt is where a frame with nothing but an Edge-to-Edge option has its number.
const edgeNumberAt = 14 + 40 + 12

// takeNumber is the number of 32 bits that the flow's next packet gets.
func (p *programs) takeNumber(t testing.TB, label uint32) uint64 {
	_, frame := run(t, p.tcOut, plainPacket(label), 0)
	return uint64(binary.BigEndian.Uint32(frame[edgeNumberAt:]))
}

// numberSets are the sets of the table of numbers.
func (p *programs) numberSets(t testing.TB) []bpf.ABIE2eNumberSet {
	t.Helper()
	m := p.maps[bpf.MapE2ENumbers]
	keys, found, sets := make(
		[]uint32,
		m.MaxEntries(),
	), make(
		[]bpf.ABIE2eNumberSet,
		m.MaxEntries(),
	), make(
		[]bpf.ABIE2eNumberSet,
		m.MaxEntries(),
	)
	if _, err := m.BatchLookup(new(ebpf.MapBatchCursor), keys, found, nil); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	for i, key := range keys {
		sets[key] = found[i]
	}
	return sets
}

// numberPlace is where a flow has its entry.
func (p *programs) numberPlace(t testing.TB, label uint32) (set uint32, way int) {
	t.Helper()
	for i, s := range p.numberSets(t) {
		for way, number := range s.Ways {
			if number.Entry.Taken == 1 && bpf.BigEndian32(number.Entry.Key.FlowLabel) == label {
				return uint32(i), way
			}
		}
	}
	t.Fatalf("flow %d is not in the table", label)
	return 0, 0
}

// takeNumbers are those of several packets of a flow, taken as fast as a program can: it runs
// again on what it made, so all are in one header, the last one in front.
func (p *programs) takeNumbers(label uint32) (numbers []uint64, err error) {
	const packets, option = 8, 16 // as many options as one header may have, and the padding of each
	frame := plainPacket(label)
	out := make([]byte, len(frame)+packets*option)
	again := false
	run := &ebpf.RunOptions{Data: frame, DataOut: out, Context: &skb{}, Repeat: packets}
	//lint:ignore SA1019 nothing else tells that a run began again
	run.Reset = func() { again = true }
	_, err = p.tcOut.Run(run)
	if again && err == nil {
		err = errors.New("a signal interrupted the runs, so they began again, and the numbers until then are not known")
	}
	for i := range packets {
		numbers = append(numbers, uint64(binary.BigEndian.Uint32(out[edgeNumberAt+(packets-1-i)*option:])))
	}
	return numbers, err
}

// blockPreemption keeps the signal by which Go preempts goroutines from the thread.
func blockPreemption() error {
	return unix.PthreadSigmask(unix.SIG_BLOCK, &unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGURG - 1)}}, nil)
}

// TestNumbersOnAllCPUs takes numbers of the same flows on every CPU at once: each number is
// given out once, none is left out, and those of one CPU rise. There are more flows than a
// CPU remembers, so some of their entries are looked for under the lock.
func TestNumbersOnAllCPUs(t *testing.T) {
	cpus := onOneCPU(t)
	p := pairOf(t, 0x4000, false, false).first
	const rounds, flows = 40, 150
	taken := make([][flows][]uint64, len(cpus))
	var group sync.WaitGroup
	for i, cpu := range cpus {
		group.Go(func() {
			if !stayOn(t, cpu) {
				return
			}
			if err := blockPreemption(); err != nil {
				t.Error(err)
				return
			}
			for range rounds {
				for flow := range flows {
					for range 1 + flow%3*4 {
						numbers, err := p.takeNumbers(uint32(flow + 1))
						if err != nil {
							t.Error(err)
							return
						}
						taken[i][flow] = append(taken[i][flow], numbers...)
					}
				}
			}
		})
	}
	group.Wait()
	for flow := range flows {
		var all []uint64
		for i := range cpus {
			if !slices.IsSorted(taken[i][flow]) {
				t.Errorf("flow %d: numbers of one CPU fall", flow)
			}
			all = append(all, taken[i][flow]...)
		}
		slices.Sort(all)
		for i, number := range all {
			if number != uint64(i) {
				t.Fatalf("flow %d: number %d instead of %d", flow, number, i)
			}
		}
		if want := len(cpus) * rounds * (1 + flow%3*4) * 8; len(all) != want {
			t.Errorf("flow %d: %d numbers, want %d", flow, len(all), want)
		}
	}
}

// TestNumbersOfReplacedFlow: a CPU remembers a flow whose entry another CPU has given to
// another one meanwhile. The first flow begins again, and the other one's numbers go on.
func TestNumbersOfReplacedFlow(t *testing.T) {
	cpus := onOneCPU(t)
	if len(cpus) < 2 {
		t.Skip("there is only one CPU")
	}
	p := pairOf(t, 0x4000, false, false).first
	const label = 0xfffff
	want := func(label uint32, number uint64) {
		t.Helper()
		if got := p.takeNumber(t, label); got != number {
			t.Errorf("flow %d: number %d, want %d", label, got, number)
		}
	}
	want(label, 0)
	want(label, 1)
	set, way := p.numberPlace(t, label)

	moveTo(t, cpus[1])
	other := uint32(label)
	for next := uint32(1); other == label; {
		for range uint32(bpf.ABIE2eBoundE2E_NUMBER_SETS) * uint32(bpf.ABIE2eBoundE2E_WAYS) {
			want(next, 0)
			next++
		}
		other = bpf.BigEndian32(p.numberSets(t)[set].Ways[way].Entry.Key.FlowLabel)
	}
	time.Sleep(2 << 26) // so that others have been silent for longer than this one
	want(other, 1)

	moveTo(t, cpus[0])
	want(label, 0)
	want(label, 1)
	moveTo(t, cpus[1])
	want(other, 2)
	want(label, 2)
}

// TestNumbersGoOn: the lower half of an entry's number is used up, for every way in which a
// packet finds that.
func TestNumbersGoOn(t *testing.T) {
	onOneCPU(t)
	p := pairOf(t, 0x8000, false, false).first
	nextNumber := func() uint64 {
		_, frame := run(t, p.tcOut, plainPacket(7), 0)
		return binary.BigEndian.Uint64(frame[edgeNumberAt:])
	}
	if got := nextNumber(); got != 0 {
		t.Fatalf("begins with %d", got)
	}
	set, way := p.numberPlace(t, 7)
	for next := uint64(1); next < 6; next++ {
		sets := p.numberSets(t)
		own := &sets[set].Ways[way]
		own.Next |= 1<<32 - next
		if err := p.maps[bpf.MapE2ENumbers].Put(set, sets[set]); err != nil {
			t.Fatal(err)
		}
		number := own.Begin + uint64(uint32(own.Next))
		for range 10 {
			if got := nextNumber(); got != number {
				t.Fatalf("number %#x, want %#x", got, number)
			}
			number++
		}
		if number < next<<32 {
			t.Errorf("only %#x numbers after %d halves", number, next)
		}
	}
}

// TestEdgesOfNoTime: a timestamp of zero is not known (RFC 5905 §6), also at a node whose clock is near
// the beginning of the format's time.
func TestEdgesOfNoTime(t *testing.T) {
	onOneCPU(t)
	first := pairOf(t, 0x7000, false, false).first
	end := rightConfig()
	measuringEdges(&end)
	p := edgePair{first, loadPrograms(t, end, 1, int64(taiUTC+30*time.Second), hookIngressXDP, hookIngressTC)}
	for _, program := range []*ebpf.Program{p.last.xdp, p.last.tcIn} {
		for seconds, delays := range map[uint32]uint64{0: 0, 1: 1} {
			p.last.forgetEdges(t)
			_, frame := run(t, p.first.tcOut, plainPacket(7), 0)
			binary.BigEndian.PutUint32(frame[edgeNumberAt+4:], seconds)
			binary.BigEndian.PutUint32(frame[edgeNumberAt+8:], 0)
			run(t, program, frame, 0)
			for key, totals := range p.flows(t) {
				if totals.Packets != 1 || totals.Delays != delays || delays > 0 && totals.DelaySum != 29*time.Second {
					t.Errorf("%v, %d seconds: %+v: %+v", program.Type(), seconds, key, totals)
				}
			}
		}
	}
}
