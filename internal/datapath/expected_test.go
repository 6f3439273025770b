// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/delivery"
)

// onOneCPU keeps the test on one CPU, whose tables it reads, and returns the CPUs
// that it may use.
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

// moveThread moves a goroutine other than the test's.
func moveThread(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	return unix.SchedSetaffinity(0, &one)
}

// flowIdentity is what identifies the exports of one flow (docs/data-plane/direct-export.md).
type flowIdentity struct {
	role            model.NodeRole
	ingress, egress model.IfIndex
	namespace       ioam.NamespaceID
	traceType       ioam.TraceType
	extensionFlags  uint8
	flowID          uint32
	flow            model.Flow
}

// expectedFlow is what a flow should add up to.
type expectedFlow struct {
	packets, bytes  uint64
	delays          uint32
	delaySum        time.Duration
	late            uint32
	lowest, highest uint8

	parts []*delivery.Sequence // one for each entry that it had, in order
	ended bool
}

// expectedNumbers is what is known about a flow that was reported.
type expectedNumbers struct {
	highest                  uint32
	balance, reportedMissing int64
}

// isWhole says whether the flow continues without a missing number from where it was last
// reported.
func (s *expectedFlow) isWhole(last expectedNumbers, known bool) bool {
	p := s.parts[0]
	if len(s.parts) > 1 || p.Anew || p.Strays > 0 || len(p.Numbers) == 0 {
		return false
	}
	lowest, highest := delivery.Span(p.Numbers)
	return uint32(len(p.Numbers)) == highest-lowest+1 && (known && lowest == last.highest+1 || !known && lowest == 0)
}

// missing is how many numbers after the highest one reported before, or after the
// first one, did not arrive; duplicates make up for losses. sure is false when
// the numbers of several entries cannot be combined.
func (s *expectedFlow) missing(last expectedNumbers, known bool) (now expectedNumbers, missing int64, sure bool) {
	var all []uint32
	came, parts, anew, apart := int64(0), 0, false, false
	live := s.parts[len(s.parts)-1]
	for _, p := range append([]*delivery.Sequence{live}, s.parts[:len(s.parts)-1]...) {
		came += int64(len(p.Numbers) + p.Strays)
		anew = anew || p.Anew
		if len(p.Numbers)+p.Strays > 0 {
			parts++
		}
		if len(p.Numbers) > 0 && len(all) > 0 {
			lowest, highest := delivery.Span(p.Numbers)
			from, to := delivery.Span(all)
			apart = apart || int32(lowest-to) > 1000 || int32(from-highest) > 1000
		}
		all = append(all, p.Numbers...)
	}
	switch {
	case anew && parts > 1, apart && !known, len(all) == 0 && !known:
		return now, 0, false
	case len(all) == 0:
		last.balance = max(last.balance-came, -last.reportedMissing)
		return last, 0, true
	}
	lowest, highest := delivery.Span(all)
	now.highest = highest
	expected := int64(highest-lowest) + 1
	if ahead := int32(highest - last.highest); known && !anew && ahead >= -1000 && ahead <= 1<<30 {
		expected = int64(max(ahead, 0))
		now.balance, now.reportedMissing = last.balance, last.reportedMissing
		if ahead < 0 {
			now.highest = last.highest
		}
	}
	now.balance += expected - came
	missing = max(now.balance, 0)
	now.reportedMissing += missing
	now.balance = max(now.balance-missing, -now.reportedMissing)
	return now, missing, true
}

// stream identifies the flows that share Sequence Numbers.
type stream struct {
	namespace ioam.NamespaceID
	flowID    uint32
}

// expectedExports is an independent model of what happens to exports.
type expectedExports struct {
	namespaces map[ioam.NamespaceID]model.Namespace
	flows      map[flowIdentity]*expectedFlow
	ended      map[flowIdentity][]*expectedFlow // to be reported at once
	reported   map[flowIdentity]expectedNumbers
	streams    map[stream]map[flowIdentity]bool // the flows of each stream
}

func newExpectedExports(cfg model.NodeConfig) *expectedExports {
	x := &expectedExports{
		make(map[ioam.NamespaceID]model.Namespace), make(map[flowIdentity]*expectedFlow),
		make(map[flowIdentity][]*expectedFlow), make(map[flowIdentity]expectedNumbers), make(map[stream]map[flowIdentity]bool),
	}
	for _, ns := range cfg.Namespaces {
		x.namespaces[ns.ID] = ns
	}
	return x
}

// add processes a packet's exports and returns those that become postcards.
func (x *expectedExports) add(exports []model.Postcard) (postcards []model.Postcard) {
	for _, e := range exports {
		ns := x.namespaces[e.Option.Namespace]
		if ns.Export == model.ExportEvery || x.aggregate(e, ns.Sample) && ns.Export == model.ExportSample {
			postcards = append(postcards, e)
		}
	}
	return postcards
}

func (x *expectedExports) aggregate(e model.Postcard, sample uint32) bool {
	identity := flowIdentity{
		e.Role, e.Ingress, e.Egress, e.Option.Namespace, e.Option.Type, e.Option.ExtensionFlags, e.Option.FlowID, e.Flow,
	}
	sum := x.flows[identity]
	if sum == nil {
		sum = &expectedFlow{lowest: 255, parts: []*delivery.Sequence{{}}}
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
		if sum.parts[len(sum.parts)-1].Add(e.Option.Sequence) {
			sum.late++
		}
		if of := (stream{e.Option.Namespace, e.Option.FlowID}); e.Option.HasFlowID() && e.Role != model.RoleEncapsulating {
			if x.streams[of] == nil {
				x.streams[of] = make(map[flowIdentity]bool)
			}
			x.streams[of][identity] = true
		}
	}
	if e.Ends {
		x.end(identity, sum)
	}
	return sample > 0 && chosenBy%sample == 0
}

// misses says whether the flow can have missing numbers.
func (f flowIdentity) misses() bool {
	return f.extensionFlags&ioam.ExtensionSequence != 0 && f.role != model.RoleEncapsulating
}

// end is the end of a connection: it is reported at once when nothing is missing.
func (x *expectedExports) end(identity flowIdentity, sum *expectedFlow) {
	sum.ended = true
	last, known := x.reported[identity]
	if identity.misses() {
		if !sum.isWhole(last, known) {
			sum.parts = append(sum.parts, &delivery.Sequence{})
			return
		}
		_, last.highest = delivery.Span(sum.parts[0].Numbers)
		x.reported[identity] = last
	}
	delete(x.flows, identity)
	x.ended[identity] = append(x.ended[identity], sum)
}

// isMissing says whether a flow reports its numbers correctly.
func (x *expectedExports) isMissing(f flows.Flow, want *expectedFlow, identity flowIdentity) bool {
	if !identity.misses() {
		return f.Skipped == 0 && !f.SkippedUnknown
	}
	last, known := x.reported[identity]
	now, missing, sure := want.missing(last, known)
	if !sure {
		delete(x.reported, identity)
		return f.SkippedUnknown || f.Skipped == 0
	}
	shared := identity.extensionFlags&ioam.ExtensionFlowID != 0 && len(x.streams[stream{f.Namespace, f.FlowID}]) > 1
	if f.SkippedUnknown {
		now.reportedMissing -= missing
		x.reported[identity] = now
		return shared && missing > 0
	}
	x.reported[identity] = now
	return int64(f.Skipped) == missing
}

// compareFlows compares the flows that the programs hold with the expected ones.
func (x *expectedExports) compareFlows(t *testing.T, p *programs) {
	t.Helper()
	if p.flows == nil {
		if len(x.flows) > 0 {
			t.Errorf("%d flows are expected, and there is no table", len(x.flows))
		}
		return
	}
	if err := p.flows.Collect(func(f flows.Flow) { x.compare(t, f) }); err != nil {
		t.Fatal(err)
	}
	if len(x.flows) > 0 {
		t.Errorf("%d flows are missing: %+v", len(x.flows), x.flows)
	}
	x.compareEnded(t, nil)
}

// compareEnded compares the flows that were reported at once with those that
// ended.
func (x *expectedExports) compareEnded(t *testing.T, list []flows.Flow) {
	t.Helper()
	for _, f := range list {
		x.compare(t, f)
	}
	for identity, sums := range x.ended {
		if len(sums) > 0 {
			t.Errorf("flow %+v ended %d times, and was not reported", identity, len(sums))
		}
	}
}

func (x *expectedExports) compare(t *testing.T, f flows.Flow) {
	t.Helper()
	identity := flowIdentity{f.Role, f.Ingress, f.Egress, f.Namespace, f.Type, f.ExtensionFlags, f.FlowID, f.Flow}
	want := x.flows[identity]
	numbers := func() bool { return x.isMissing(f, want, identity) }
	if ended := x.ended[identity]; len(ended) > 0 {
		want, x.ended[identity] = ended[0], ended[1:]
		numbers = func() bool { return f.Skipped == 0 && !f.SkippedUnknown }
	} else {
		delete(x.flows, identity)
	}
	if want == nil || want.ended != (f.End == flows.EndOfConnection) || f.Packets != want.packets || f.Bytes != want.bytes ||
		f.DelayCount != want.delays || f.DelaySum != want.delaySum ||
		!numbers() || f.Late != want.late || f.HopLimitMin != want.lowest || f.HopLimitMax != want.highest {
		t.Errorf("flow %+v, want %+v", f, want)
	}
	if age := time.Since(f.First); age < -time.Second || age > 10*time.Minute || f.Last.Before(f.First) {
		t.Errorf("flow %+v began at %v and was last seen at %v", identity, f.First, f.Last)
	}
}

func samePostcards(got []rings.Postcard, want []model.Postcard) bool {
	if len(got) != len(want) {
		return false
	}
	for i, c := range got {
		c.Ends = want[i].Ends // flow records have it
		if c.Postcard != want[i] || !c.Time.Equal(time.Unix(0, want[i].Time).Add(-taiUTC)) {
			return false
		}
	}
	return true
}
