// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/delivery"
)

// numberedTCP is a TCP segment in transit with a Flow-ID and a Sequence Number.
func numberedTCP(t testing.TB, flow, n uint32, port uint16, flags byte) []byte {
	t.Helper()
	option := ioam.DirectExport{
		Namespace:      123,
		Type:           0xc00000,
		ExtensionFlags: ioam.ExtensionFlowID | ioam.ExtensionSequence,
		FlowID:         flow,
		Sequence:       n,
	}
	return carrying(t, option, craft.TCP, craft.Segment(port, 0, flags))
}

// TestFlowEndsOnOneOfTwoCPUs ends a connection on one CPU while another has half
// of its packets: nothing is missing, on whichever CPU it ends.
func TestFlowEndsOnOneOfTwoCPUs(t *testing.T) {
	cpus := onOneCPU(t)
	first, last := cpus[0], cpus[len(cpus)-1]
	cfg := rightConfig()
	cfg.Namespaces[0].Export = model.ExportAggregate
	cfg.FlowEntries, cfg.ExportLimit = 4, 1
	const packets = 100
	for _, end := range []byte{0x01, 0x04} { // FIN, RST
		p := loadPrograms(t, cfg, 1, fixedTime, hookEgressTC)
		number := uint32(0)
		for round := range 3 { // the same ports and Flow-ID again: numbers continue
			for i := range packets {
				moveTo(t, []int{first, last}[i%2])
				flags := byte(0x10)
				if i == packets-1 {
					flags |= end
				}
				run(t, p.tcOut, numberedTCP(t, 77, number, 1234, flags), 2)
				number++
			}
			list := p.readSamples(t).flows
			if err := p.flows.Collect(func(f flows.Flow) { list = append(list, f) }); err != nil {
				t.Fatal(err)
			}
			sum, missing := uint64(0), uint32(0)
			for _, f := range list {
				sum, missing = sum+f.Packets, missing+f.Skipped
			}
			if sum != packets || missing != 0 {
				t.Errorf("end %#x, round %d: %d packets in %d records, %d missing", end, round, sum, len(list), missing)
			}
		}
		p.close()
	}
}

// TestRandomFlowsOnSeveralCPUs runs the programs on all CPUs with flows whose
// packets overtake each other, are lost, end connections, are evicted by others,
// find no place, and arrive while an interval ends. No loss is reported that did
// not happen; without refusals and shared Flow-IDs every loss is reported; and
// each packet is in one record, or was suppressed.
func TestRandomFlowsOnSeveralCPUs(t *testing.T) {
	cpus := onOneCPU(t)
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(11, seed))
		cfg := rightConfig()
		cfg.Namespaces[0].Export = model.ExportAggregate
		cfg.FlowEntries, cfg.ExportLimit, cfg.ExportRate = 4, 1000, model.MaxExportRate
		run := &randomRun{
			t: t, r: r, cpus: cpus, p: loadPrograms(t, cfg, 1, fixedTime, hookEgressTC),
			others: []int{0, 0, 6}[seed%3], refusing: seed%4 == 3, sharing: seed%5 == 4,
			packets: map[uint16]uint64{}, missing: map[uint16]uint64{}, unknown: map[uint16]int{},
		}
		if run.refusing {
			run.others = 8
		}
		run.check(seed)
		run.p.close()
	}
}

// randomRun runs one flow through the programs, among others.
type randomRun struct {
	t                 *testing.T
	r                 *rand.Rand
	cpus              []int
	p                 *programs
	others            int // flows that compete for places
	refusing, sharing bool

	packets, missing map[uint16]uint64 // by port
	unknown          map[uint16]int
}

const (
	chosenPort  = 1000
	sharingPort = 2000
	otherPort   = 3000
)

func (x *randomRun) addReported(f flows.Flow) {
	port := f.Flow.SourcePort
	x.packets[port] += f.Packets
	x.missing[port] += uint64(f.Skipped)
	if f.SkippedUnknown {
		x.unknown[port]++
	}
}

func (x *randomRun) readRings() bool {
	for _, f := range x.p.readSamples(x.t).flows {
		x.addReported(f)
	}
	return true
}

func (x *randomRun) send(frame []byte, cpu int) {
	x.t.Helper()
	moveTo(x.t, x.cpus[cpu%len(x.cpus)])
	run(x.t, x.p.tcOut, frame, 2)
}

func (x *randomRun) check(seed uint64) {
	depth := x.r.IntN(30)
	list, lost := delivery.Packets(x.r, uint32(x.r.IntN(2)*5000), 600, len(x.cpus), depth, []float64{0, 0.02}[x.r.IntN(2)])
	at, sent := 0, uint64(0)
	step := func(until int) {
		for ; at < min(until, len(list)); at++ {
			d, port, flags := list[at], uint16(chosenPort), byte(0x10)
			if d.Ends {
				flags = []byte{0x11, 0x04}[x.r.IntN(2)]
			}
			if x.sharing && at%3 == 1 {
				port = sharingPort
			}
			if x.refusing && x.r.IntN(20) == 0 {
				x.p.setCredit(x.t, int64(x.r.IntN(2))<<40)
			}
			x.send(numberedTCP(x.t, 77, d.Number, port, flags), d.CPU)
			if x.others > 0 && x.r.IntN(2) == 0 {
				other := x.r.IntN(x.others)
				x.send(numberedTCP(x.t, uint32(1000+other), 0, otherPort+uint16(other), 0x10), d.CPU)
				sent++
			}
		}
	}
	before := x.p.snapshotCounters(x.t)
	x.p.site.own.sequences.Read = x.readRings
	x.p.site.own.sequences.Wait = func(time.Duration) { step(at + 2*depth + 2) }
	for quiet := 0; quiet < 2; {
		step(at + 1 + x.r.IntN(200))
		if at >= len(list) {
			quiet++
		}
		if err := x.p.flows.Collect(x.addReported); err != nil {
			x.t.Fatal(err)
		}
		if x.missing[chosenPort]+x.missing[sharingPort] > uint64(len(lost)) {
			x.t.Fatalf("seed %d: %v missing at %d of %d, %d are lost", seed, x.missing, at, len(list), len(lost))
		}
	}
	counted := moved(before, x.p.snapshotCounters(x.t))
	suppressed := counted[bpf.ABICounterCOUNTER_POSTCARDS_SUPPRESSED]
	sum := uint64(0)
	for _, n := range x.packets {
		sum += n
	}
	// a FIN that must stay is suppressed, too, and reported when the interval
	// ends
	if all := uint64(len(list)) + sent; sum > all || sum+suppressed < all || !x.refusing && sum != all {
		x.t.Errorf("seed %d: %d packets reported and %d suppressed, of %d", seed, sum, suppressed, all)
	}
	if len(lost) == 0 && !x.refusing && !x.sharing && x.unknown[chosenPort] > 0 {
		x.t.Errorf("seed %d: nothing is lost, and %d records do not know", seed, x.unknown[chosenPort])
	}
	if !x.refusing && !x.sharing && x.missing[chosenPort] != uint64(len(lost)) {
		x.t.Errorf("seed %d: %d missing, %d were lost; %v", seed, x.missing[chosenPort], len(lost), counted)
	}
	if x.sharing && x.missing[chosenPort]+x.missing[sharingPort] > 0 {
		x.t.Errorf("seed %d: %v missing of two flows that share numbers", seed, x.missing)
	}
}
