// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ioam"
)

// onOneCPU keeps the test on a CPU, whose tables it looks at, and says which it
// could be on.
func onOneCPU(t *testing.T) (cpus []int) {
	t.Helper()
	runtime.LockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; len(cpus) < before.Count(); cpu++ {
		if before.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	moveTo(t, cpus[0])
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &before); err == nil {
			runtime.UnlockOSThread()
		}
	})
	return cpus
}

func moveTo(t *testing.T, cpu int) {
	t.Helper()
	if err := moveThread(cpu); err != nil {
		t.Fatal(err)
	}
}

// moveThread is moveTo for another goroutine than the test's.
func moveThread(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	return unix.SchedSetaffinity(0, &one)
}

// flowIdentity is what makes exports those of one flow (docs/data-plane.md,
// "Direct Export").
type flowIdentity struct {
	role            ioam.ExportRole
	ingress, egress ioam.IfIndex
	namespace       ioam.NamespaceID
	traceType       ioam.TraceType
	extensionFlags  uint8
	flowID          uint32
	flow            ioam.Flow
}

// flowSum is what a flow should come to.
type flowSum struct {
	packets, bytes  uint64
	delays          uint32
	delaySum        time.Duration
	late            uint32
	lowest, highest uint8

	numbered bool
	latest   uint32
	again    uint32
	numbers  []uint32
	ended    bool
}

// missing is what is not there between the first and the last number, as those
// that went around 2^32 would have it; duplicates make up for losses. Behind a
// highest number that was told before, it is what is not there from that one on.
func (s *flowSum) missing(role ioam.ExportRole, told map[flowIdentity]uint32, identity flowIdentity) uint32 {
	if len(s.numbers) == 0 || role == ioam.RoleEncapsulating {
		return 0
	}
	lowest, highest := s.numbers[0], s.numbers[0]
	for _, n := range s.numbers {
		if int32(n-highest) > 0 {
			highest = n
		} else if int32(n-lowest) < 0 {
			lowest = n
		}
	}
	span := int64(highest-lowest) + 1
	if before, ok := told[identity]; ok {
		if ahead := int32(highest - before); ahead > 0 {
			span = int64(ahead)
		} else if ahead >= -1000 {
			span, highest = 0, before
		}
	}
	told[identity] = highest
	return uint32(max(span-int64(len(s.numbers)), 0))
}

// expectedExports restates what becomes of exports.
type expectedExports struct {
	namespaces map[ioam.NamespaceID]ioam.Namespace
	flows      map[flowIdentity]*flowSum
	ended      map[flowIdentity][]*flowSum // not told yet
	told       map[flowIdentity]uint32     // the highest Sequence Number
}

func newExpectedExports(cfg ioam.NodeConfig) *expectedExports {
	x := &expectedExports{
		make(map[ioam.NamespaceID]ioam.Namespace), make(map[flowIdentity]*flowSum),
		make(map[flowIdentity][]*flowSum), make(map[flowIdentity]uint32),
	}
	for _, ns := range cfg.Namespaces {
		x.namespaces[ns.ID] = ns
	}
	return x
}

// add takes a packet's exports and returns those that become postcards.
func (x *expectedExports) add(exports []ioam.Export) (postcards []ioam.Export) {
	for _, e := range exports {
		ns := x.namespaces[e.Option.Namespace]
		if ns.Export == ioam.ExportEvery || x.aggregate(e, ns.Sample) && ns.Export == ioam.ExportSample {
			postcards = append(postcards, e)
		}
	}
	return postcards
}

func (x *expectedExports) aggregate(e ioam.Export, sample uint32) bool {
	identity := flowIdentity{
		e.Role, e.Ingress, e.Egress, e.Option.Namespace, e.Option.Type, e.Option.ExtensionFlags, e.Option.FlowID, e.Flow,
	}
	sum := x.flows[identity]
	if sum == nil {
		sum = &flowSum{lowest: 255}
		x.flows[identity] = sum
	}
	chosenBy := uint32(sum.packets)
	sum.packets++
	sum.bytes += uint64(e.Length)
	sum.lowest, sum.highest = min(sum.lowest, e.HopLimit), max(sum.highest, e.HopLimit)
	if e.TransitDelay != ioam.DataUnavailable {
		sum.delays++
		sum.delaySum += time.Duration(e.TransitDelay)
	}
	if e.Option.HasSequence() {
		chosenBy = e.Option.Sequence
		number := e.Option.Sequence
		switch ahead := int32(number - sum.latest); {
		case !sum.numbered || ahead > 0:
			sum.latest, sum.numbers = number, append(sum.numbers, number)
		case ahead == 0: // the same again
		case ahead >= -1000:
			sum.late, sum.numbers = sum.late+1, append(sum.numbers, number)
		case number == sum.again: // they began anew
			sum.latest, sum.numbers = number, []uint32{number}
		default:
			sum.late, sum.again = sum.late+1, number+1
		}
		sum.numbered = true
	}
	if sum.ended = e.Ends; e.Ends {
		delete(x.flows, identity)
		x.ended[identity] = append(x.ended[identity], sum)
	}
	return sample > 0 && chosenBy%sample == 0
}

// compareFlows holds the flows that programs have left to the expected ones.
func (x *expectedExports) compareFlows(t *testing.T, p *programs) {
	t.Helper()
	if p.flows == nil {
		if len(x.flows) > 0 {
			t.Errorf("%d flows are expected, and there is no table", len(x.flows))
		}
		return
	}
	if err := p.flows.collect(func(f Flow) { x.compare(t, f) }); err != nil {
		t.Fatal(err)
	}
	if len(x.flows) > 0 {
		t.Errorf("%d flows are missing: %+v", len(x.flows), x.flows)
	}
	x.compareEnded(t, nil)
}

// compareEnded holds the flows that were told at once to those that ended.
func (x *expectedExports) compareEnded(t *testing.T, flows []Flow) {
	t.Helper()
	for _, f := range flows {
		x.compare(t, f)
	}
	for identity, sums := range x.ended {
		if len(sums) > 0 {
			t.Errorf("flow %+v ended %d times, and nobody was told", identity, len(sums))
		}
	}
}

func (x *expectedExports) compare(t *testing.T, f Flow) {
	t.Helper()
	identity := flowIdentity{f.Role, f.Ingress, f.Egress, f.Namespace, f.Type, f.ExtensionFlags, f.FlowID, f.Flow}
	want := x.flows[identity]
	if ended := x.ended[identity]; len(ended) > 0 {
		want, x.ended[identity] = ended[0], ended[1:]
	} else {
		delete(x.flows, identity)
	}
	if want == nil || want.ended != (f.End == FlowEnded) || f.Packets != want.packets || f.Bytes != want.bytes || f.DelayCount != want.delays || f.DelaySum != want.delaySum ||
		f.Skipped != want.missing(f.Role, x.told, identity) || f.Late != want.late || f.HopLimitMin != want.lowest || f.HopLimitMax != want.highest {
		t.Errorf("flow %+v, want %+v", f, want)
	}
	if age := time.Since(f.First); age < -time.Second || age > 10*time.Minute || f.Last.Before(f.First) {
		t.Errorf("flow %+v began at %v and was last seen at %v", identity, f.First, f.Last)
	}
}

func samePostcards(got []Postcard, want []ioam.Export) bool {
	if len(got) != len(want) {
		return false
	}
	for i, c := range got {
		c.Ends = want[i].Ends // flows say it
		if c.Export != want[i] || !c.Time.Equal(time.Unix(0, want[i].Time).Add(-taiUTC)) {
			return false
		}
	}
	return true
}
