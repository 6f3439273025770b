// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
)

// packetsPerConfig amortizes the cost of loading programs.
const packetsPerConfig = 2500

// agreementRun is what an agreement test compares: configurations are numbered by the
// random packets before them.
type agreementRun struct {
	first, end uint64
	seed       uint64
	// representative says that every outcome has to occur: another seed, or fewer packets,
	// may miss a rare one.
	representative bool
}

// newAgreementRun is a run of this many packets with a fixed seed.
// WAYMARK_AGREEMENT_PACKETS sets another number, with a random seed.
// WAYMARK_AGREEMENT_SEED repeats a run, and WAYMARK_AGREEMENT_FIRST one configuration of
// it.
func newAgreementRun(t *testing.T, packets uint64) agreementRun {
	t.Helper()
	number := func(name string, number *uint64) bool {
		text, ok := os.LookupEnv(name)
		if !ok || text == "" {
			return false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s is not a number; set it to 0 or more", name, text)
		}
		*number = n
		return true
	}
	r := agreementRun{end: packets, seed: 1, representative: true}
	if number("WAYMARK_AGREEMENT_PACKETS", &r.end) {
		r.seed, r.representative = rand.Uint64(), r.end >= 1_000_000
	}
	if number("WAYMARK_AGREEMENT_SEED", &r.seed) {
		r.representative = r.end >= 1_000_000
	}
	if number("WAYMARK_AGREEMENT_FIRST", &r.first) {
		r.end, r.representative = r.first+packetsPerConfig, false
	}
	if r.end == 0 {
		t.Fatal("WAYMARK_AGREEMENT_PACKETS=0 compares nothing; set it to 1 or more")
	}
	t.Logf("WAYMARK_AGREEMENT_PACKETS=%d WAYMARK_AGREEMENT_SEED=%d", r.end, r.seed)
	return r
}

// failed names what repeats a failure.
func (r agreementRun) failed(t *testing.T, configuration uint64) {
	t.Helper()
	if t.Failed() {
		t.Fatalf("repeat it with WAYMARK_AGREEMENT_SEED=%d WAYMARK_AGREEMENT_FIRST=%d", r.seed, configuration)
	}
}

// TestAgreement gives random packets, valid and broken, to the BPF programs and
// to the reference node: verdict, bytes, outcome and record must be equal, and no
// other counter may change.
func TestAgreement(t *testing.T) {
	run := newAgreementRun(t, 50_000)
	onOneCPU(t)
	seen, reconfigured := make(map[string]map[model.Outcome]int), uint64(0)
	for done := run.first; done < run.end; done += packetsPerConfig {
		g := generator{rand.New(rand.NewPCG(run.seed, done))}
		cfg := g.config()
		if err := cfg.Validate(); err != nil {
			t.Fatalf("configuration %d: %v", done, err)
		}
		p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
		p.agreeAll(t, cfg, packetsPerConfig, g, seen)
		run.failed(t, done)
		if second, ok := p.reconfigure(t, cfg, g); ok {
			reconfigured++
			p.agreeAll(t, second, packetsPerConfig/5, g, seen)
		}
		run.failed(t, done)
		p.close()
	}
	if sets := (run.end - run.first) / packetsPerConfig; reconfigured < sets/8 {
		t.Errorf("only %d of %d sets of programs got a second configuration", reconfigured, sets)
	}
	for hook, outcomes := range seen {
		for _, o := range model.Outcomes() {
			t.Logf("%-12s %-32s %d", hook, o, outcomes[o])
			if outcomes[o] == 0 != unreachable(hook, o) && run.representative {
				t.Errorf("%s: outcome %s occurred %d times", hook, o, outcomes[o])
			}
		}
	}
}

// TestObservingChangesNothing gives random packets to programs with random configurations in
// mode observe: all pass, byte for byte, and are counted as the reference node says.
func TestObservingChangesNothing(t *testing.T) {
	onOneCPU(t)
	seen := make(map[model.Outcome]int)
	g := generator{rand.New(rand.NewPCG(1, 27))}
	var p *programs
	for range 8 {
		cfg := g.config().Observing()
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		if p == nil { // all have the same programs
			p = loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
			defer p.close()
			for _, direction := range []struct {
				program *ebpf.Program
				base    bpf.ABICounter
			}{{p.tcIn, bpf.ABICounterCOUNTER_INGRESS}, {p.tcOut, bpf.ABICounterCOUNTER_EGRESS}, {p.xdp, bpf.ABICounterCOUNTER_INGRESS}} {
				agree(t, cfg, p, direction.program, direction.base, 2000, g, seen)
			}
		}
		node, err := reference.NewNode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			frame := g.frame()
			for name, hook := range map[string]func(reference.Frame) reference.Result{"ingress": node.Ingress, "egress": node.Egress} {
				r := hook(reference.Frame{Data: frame, Interface: 1, Ingress: model.IfIndex(g.IntN(3)), Time: fixedTime})
				if r.Verdict != reference.Pass || !bytes.Equal(r.Data, frame) || r.Record != nil || r.Loopback != nil || len(r.Postcards) > 0 {
					t.Fatalf("%s: %v %v of\n%s", name, r.Verdict, r.Outcome, hex.Dump(frame))
				}
			}
		}
	}
	if len(seen) < 4 {
		t.Errorf("only the outcomes %v", seen)
	}
}

// agreeAll compares every program of the interface.
func (p *programs) agreeAll(t *testing.T, cfg model.NodeConfig, packets int, g generator, seen map[string]map[model.Outcome]int) {
	t.Helper()
	for _, c := range []struct {
		name    string
		program *ebpf.Program
		base    bpf.ABICounter
	}{
		{"xdp ingress", p.xdp, bpf.ABICounterCOUNTER_INGRESS},
		{"tc ingress", p.tcIn, bpf.ABICounterCOUNTER_INGRESS},
		{"tc egress", p.tcOut, bpf.ABICounterCOUNTER_EGRESS},
	} {
		if seen[c.name] == nil {
			seen[c.name] = make(map[model.Outcome]int)
		}
		agree(t, cfg, p, c.program, c.base, packets/3, g, seen[c.name])
		if t.Failed() {
			t.Logf("%s: %+v", c.name, cfg)
			return
		}
	}
}

// reconfigure gives the loaded programs another configuration, if one of a few
// candidates needs no other programs.
func (p *programs) reconfigure(t *testing.T, cfg model.NodeConfig, g generator) (model.NodeConfig, bool) {
	t.Helper()
	sizes := p.site.set.filled[0]
	if sizes == nil {
		sizes = p.site.set.filled[1]
	}
	for range 100 {
		second := g.config()
		second.TimestampFormat, second.Compatibility, second.FlowSeed = cfg.TimestampFormat, cfg.Compatibility, cfg.FlowSeed
		for i := range second.Encapsulations { // frequencies continue by name
			second.Encapsulations[i].Name = "second " + second.Encapsulations[i].Name
		}
		if second.Validate() != nil { // it is for the other compatibility
			continue
		}
		compiled, err := compile.Node(second, 0, attach.Ethernet)
		if err != nil {
			t.Fatal(err)
		}
		compiled.Node.FixedTime, compiled.Node.FixedIfindex = p.site.set.node.FixedTime, p.site.set.node.FixedIfindex
		if !p.site.set.serves(compiled, p.site.kept) || !maps.Equal(tableSizes(compiled, 1), tableSizes(sizes, 1)) {
			continue
		}
		if _, _, err := assignFrequencies(compiled, p.site.kept); err != nil {
			t.Fatal(err)
		}
		p.forgetSequences(t)
		if err := assignProofs(compiled, p.maps[bpf.MapProofs], nil); err != nil {
			t.Fatal(err)
		}
		if err := p.site.set.activate(compiled, func(compile.Interface) bool { return false }); err != nil {
			t.Fatal(err)
		}
		return second, true
	}
	return cfg, false
}

// forgetSequences restarts the Sequence Numbers of every flow, as in a new
// reference node.
func (p *programs) forgetSequences(t *testing.T) {
	t.Helper()
	m, ok := p.maps[bpf.MapSequences]
	if !ok {
		return
	}
	keys := make([]uint32, m.MaxEntries())
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := m.BatchUpdate(keys, make([]bpf.ABISequenceSet, len(keys)), nil); err != nil {
		t.Fatal(err)
	}
}

// agree compares one program with the reference node over many packets, and the
// counters with the expected counts.
func agree(
	t *testing.T, cfg model.NodeConfig, p *programs, program *ebpf.Program, base bpf.ABICounter,
	packets int, g generator, seen map[model.Outcome]int,
) {
	t.Helper()
	c := newComparison(t, cfg, p, program, base, g.wanted(packets))
	before := p.snapshotCounters(t)
	for compared := 0; compared <= packets; compared++ {
		if base == bpf.ABICounterCOUNTER_EGRESS && g.IntN(20) == 0 { // somewhere on the node
			c.counted[bpf.ABICounterCOUNTER_INGRESS+bpf.ABICounter(p.hearTooBig(t, c.node, g))]++
		}
		frame := g.frame()
		for program.Type() == ebpf.SchedCLS && len(frame) < shortestSKB {
			frame = g.frame()
		}
		arrived := model.IfIndex(0)
		if base == bpf.ABICounterCOUNTER_EGRESS {
			arrived = []model.IfIndex{0, 1, 2, 8, 9}[g.IntN(5)]
		}
		outcome, same := c.compare(t, frame, arrived)
		if !same {
			return
		}
		seen[outcome]++
	}
	if got := moved(before, p.snapshotCounters(t)); !maps.Equal(got, c.counted) {
		t.Errorf("counters moved by %v, want %v", got, c.counted)
	}
	c.exports.compareFlows(t, p)
	p.compareEdges(t, c.node.Edges())
}

// shortestSKB is the shortest frame that the facility takes as an skb: with its
// protocol's header.
const shortestSKB = 14 + 40

// comparison compares one program with a reference node that sees the same packets.
type comparison struct {
	p          *programs
	program    *ebpf.Program
	base       bpf.ABICounter
	node       *reference.Node
	queueKnown bool
	wanted     int // records that have a reader, and were not made yet
	exports    *expectedExports
	counted    map[bpf.ABICounter]uint64 // what the counters should have moved by
}

func newComparison(t *testing.T, cfg model.NodeConfig, p *programs, program *ebpf.Program, base bpf.ABICounter, wanted int) *comparison {
	t.Helper()
	node, err := reference.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	node.TAIOffset = taiUTC.Nanoseconds()
	p.wantNumber(t, wanted)
	p.forgetArrivals(t)
	p.forgetSent(t)
	p.forgetFlows(t)
	p.forgetPathMTUs(t)
	p.forgetProofs(t, cfg, node)
	p.forgetEdges(t)
	return &comparison{
		p: p, program: program, base: base, node: node, queueKnown: readsQueues(t), wanted: wanted,
		exports: newExpectedExports(cfg), counted: make(map[bpf.ABICounter]uint64),
	}
}

// compare runs both on a frame. It returns the reference node's outcome, and
// whether verdict, bytes and samples are equal.
func (c *comparison) compare(t *testing.T, frame []byte, arrived model.IfIndex) (model.Outcome, bool) {
	t.Helper()
	in := reference.Frame{Data: frame, Interface: 1, Ingress: arrived, Time: fixedTime, QueueKnown: c.queueKnown, BufferKnown: c.queueKnown}
	oracle := map[bpf.ABICounter]func(reference.Frame) reference.Result{
		bpf.ABICounterCOUNTER_INGRESS: c.node.Ingress, bpf.ABICounterCOUNTER_EGRESS: c.node.Egress,
	}[c.base]
	expected := oracle(in)
	verdict, out := run(t, c.program, frame, arrived)
	got := c.p.readSamples(t)
	records, copies := got.records, got.copies
	if c.program.Type() == ebpf.SchedCLS {
		expected.Data = tagBeside(frame, expected.Data)
	}
	recorded, returned := true, true
	var reported []model.Postcard
	for _, layer := range layersOf(expected) {
		c.count(&layer)
		reported = append(reported, layer.Postcards...)
		if layer.Record != nil {
			c.counted[bpf.ABICounterCOUNTER_RECORDS_WRITTEN]++
			recorded = recorded && len(records) > 0 && sameRecord(records[0], layer.Record)
			records = records[min(len(records), 1):]
		}
		own := 0
		if layer.Loopback != nil {
			own = min(len(copies), 1)
		}
		returned = sameCopies(copies[:own], layer, c.counted) && returned
		copies = copies[own:]
	}
	recorded, returned = recorded && len(records) == 0, returned && len(copies) == 0
	records = got.records
	postcards := c.exports.add(reported)
	c.exports.compareEnded(t, got.flows)
	if len(postcards) > 0 {
		c.counted[bpf.ABICounterCOUNTER_POSTCARDS] += uint64(len(postcards))
	}
	same := dropped(c.program, verdict) == (expected.Verdict == reference.Drop) && bytes.Equal(out, expected.Data) && recorded && returned &&
		samePostcards(got.postcards, postcards)
	if !same {
		t.Errorf("arrived %d, frame\n%s\nthe programs: verdict %d, records %+v, copies %+v, postcards %+v\n%s\n"+
			"the reference: %v %v %+v %+v %+v\n%s",
			arrived, hex.Dump(frame), int32(verdict), records, got.copies, got.postcards, hex.Dump(out),
			expected.Verdict, expected.Outcome, expected.Record, expected.Loopback, postcards, hex.Dump(expected.Data))
	}
	return expected.Outcome, same
}

// layersOf are what was done with the packets of which each was in the tunnel of the one
// before, the outermost first.
func layersOf(r reference.Result) []reference.Result {
	if r.Outer == nil {
		return []reference.Result{r}
	}
	return append(layersOf(*r.Outer), r)
}

// count adds what the counters move by for one packet, and forgets what has no reader.
func (c *comparison) count(r *reference.Result) {
	c.counted[c.base+bpf.ABICounter(r.Outcome)]++
	made := takeWanted(&c.wanted, r)
	if !made {
		if (r.Outcome.Removed() || r.Removal.Removed()) && !hasProved(r.Options) {
			r.Options = nil // without a reader, nothing is written
		}
	}
	for _, outcome := range r.Edges {
		c.counted[bpf.ABICounterCOUNTER_INGRESS_OPTIONS+bpf.ABICounter(outcome)]++
	}
	for outcome, n := range besides(r.Outcome, r.Options) {
		c.counted[optionCounter[c.base]+bpf.ABICounter(outcome)] += n
	}
}

// optionCounter is the counter in which each hook counts options.
var optionCounter = map[bpf.ABICounter]bpf.ABICounter{
	bpf.ABICounterCOUNTER_INGRESS: bpf.ABICounterCOUNTER_INGRESS_OPTIONS,
	bpf.ABICounterCOUNTER_EGRESS:  bpf.ABICounterCOUNTER_EGRESS_OPTIONS,
}

// besides counts the options of a packet whose outcomes differ from the packet's.
func besides(packet model.Outcome, options []model.Outcome) map[model.Outcome]uint64 {
	counts := make(map[model.Outcome]uint64)
	stands := false
	for _, o := range options {
		if o == packet && !stands {
			stands = true // stands for the packet
			continue
		}
		counts[o]++
	}
	return counts
}

// hearTooBig gives a Packet Too Big message to an ingress program and to the
// reference node. The effect shows at egress.
func (p *programs) hearTooBig(t *testing.T, node *reference.Node, g generator) model.Outcome {
	t.Helper()
	program, frame := []*ebpf.Program{p.xdp, p.tcIn}[g.IntN(2)], g.tooBig()
	run(t, program, frame, 0)
	return node.Ingress(reference.Frame{Data: frame, Interface: 1, Time: fixedTime}).Outcome
}

// forgetPathMTUs empties the table of path MTUs.
func (p *programs) forgetPathMTUs(t *testing.T) {
	t.Helper()
	m, ok := p.maps[bpf.MapPathMTUs]
	if !ok {
		return
	}
	for {
		var key [16]byte
		err := m.NextKey(nil, &key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return
		}
		if err == nil {
			err = m.Delete(key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readsQueues reports whether this kernel lets programs read its own structures
// (Linux 6.2), which hold the queue depth.
func readsQueues(t *testing.T) bool {
	t.Helper()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var kfunc *btf.Func
	err = spec.TypeByName("bpf_cast_to_kern_ctx", &kfunc)
	if err != nil && !errors.Is(err, btf.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// unreachable are the outcomes that random packets cannot have here: those of the
// other hook, those of GSO, and those of a kernel without memory.
func unreachable(hook string, o model.Outcome) bool {
	switch o {
	case model.OutcomeEncapSkippedGSO, model.OutcomeEncapSkippedHeadroom, model.OutcomeDecapFailed,
		model.OutcomeE2EMeasured: // of options that are removed
		return true
	case model.OutcomeTraceGrown:
		return hook != "tc egress"
	case model.OutcomeRemovalPartial, model.OutcomeOptionsRemoved, model.OutcomeInlineRemoved, model.OutcomeTunnelDecapsulated,
		model.OutcomeDecapRefusedSource, model.OutcomeDecapRefusedBare, model.OutcomeDecapRefusedInner, model.OutcomeBoundaryTunnelDropped,
		model.OutcomeMalformedTunnel, model.OutcomePotUpdated, model.OutcomePotAccepted, model.OutcomePotTooOld, model.OutcomePotAhead,
		model.OutcomePotReplayed, model.OutcomePotInvalid, model.OutcomePotRejected, model.OutcomePotDropped, model.OutcomeMalformedSequences,
		model.OutcomeActiveTerminated, model.OutcomeLoopbackReceived, model.OutcomeIncrementalTrace:
		return hook == "tc egress"
	case model.OutcomeUntouched:
		return hook != "tc egress"
	}
	return o >= model.OutcomeEncapNotSelected && o <= model.OutcomeEncapOverflow && hook != "tc egress"
}

// tagBeside removes the outermost VLAN tag from a frame whose length changed: the
// kernel then keeps the tag outside the data, where a run does not return it.
func tagBeside(before, after []byte) []byte {
	if len(before) == len(after) || after[12] == 0x86 {
		return after
	}
	return append(append([]byte(nil), after[:12]...), after[16:]...)
}
