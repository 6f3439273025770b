// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"runtime"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

const (
	coresSize = 78 // bytes of a plain frame
	manyFlows = 64
	// sampledOneIn is of how many packets one gets a header where not all do.
	sampledOneIn = 100
	// secondCPUAim is the least multiple of one CPU's rate on two CPUs.
	secondCPUAim = 1.9
)

// coresExperiment has one or more CPUs with one flow or several.
func coresExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "CPUs", Axis: "CPUs that send, forward and receive",
		Baseline: "the same packets on as many CPUs, forwarded by the kernel: no program, no IOAM",
		Notes: []string{
			"A flow is a source address. Each CPU sends all of them. Who reads the records of decapsulation needs a CPU, too.",
			"Fast forwarding ends in a sink in XDP, and so does the kernel's forwarding that it is compared with. " +
				"On two CPUs, that kernel forwarding gains nothing from the second one, which a sink in tc lets it do: with two CPUs, compare the packets per second.",
			"\"Against one CPU\" has the same node with the same packets on one CPU as its baseline. Links have a queue for each CPU; with one queue, one CPU serves it. " +
				"Those that read exports are on the CPUs that forward, and go first.",
		},
	}
	for cores := 1; cores <= min(runtime.NumCPU(), 2); cores++ {
		for _, flows := range []int{1, manyFlows} {
			e.Variants = append(e.Variants, coresVariants(cores, flows)...)
		}
	}
	if runtime.NumCPU() > 1 {
		e.Variants = append(e.Variants, twoAgainstOne()...)
	}
	return e
}

func coresVariants(cores, flows int) (list []*harness.Variant) {
	const size = coresSize
	tunnel := carried{model.ModeEncap, always, pathInEach(1, typeIDs)}
	sampled := tunnel
	sampled.frequency.N = sampledOneIn
	add := func(d report.Dimensions, v, against *harness.Variant) *harness.Variant {
		d.Flows = flows
		v.Send.Senders = cores
		v.Send = v.Send.Varied(flows, 2, atSource)
		list = append(list, v.At(d, float64(cores), against))
		return v
	}
	base := add(kernelForwards(""), untreatedPackets(report.Dimensions{}, 0, harness.Plain(harness.Destination, size), 1), nil)
	add(ofNode("encapsulation in a tunnel", 0), tunnel.encapsulating(size), base)
	add(ofNode("encapsulation of 1 in 100", 0), sampled.encapsulating(size), base)
	traced := add(kernelForwards("traced packets"), untreatedPackets(report.Dimensions{}, 0, tunnel.packet(size, 1), 1), nil)
	add(report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM}, tunnel.transiting(size, kernelOwn), traced)
	add(ofNode(ourTransit, 0), tunnel.transiting(size, transit(datapath.AttachXDP)), traced)
	add(ofNode("decapsulation", 0), tunnel.decapsulating(size), traced)
	unread := tunnel.decapsulating(size)
	unread.Line[0] = decapsulate(tunnel.mode, false)
	add(report.Dimensions{Treatment: "decapsulation", Format: "no reader of records"}, unread, traced)

	inXDP := func(format string, frame []byte) *harness.Variant {
		v := untreatedPackets(report.Dimensions{}, 0, frame, 1)
		v.SinkInXDP = true
		d := kernelForwards(format)
		d.Sink = sinkXDP
		return add(d, v, nil)
	}
	base, traced = inXDP("", harness.Plain(harness.Destination, size)), inXDP("traced packets", tunnel.packet(size, 1))
	fast := func(d report.Dimensions, v, against *harness.Variant, wants ...harness.Want) {
		v.Line[0], v.SinkInXDP, v.Wants = forwardingFast(v.Line[0]), true, wants
		d.Way = report.WayFast
		add(d, v, against)
	}
	fast(
		ofNode("encapsulation in a tunnel", 0),
		tunnel.encapsulating(size),
		base,
		harness.Has(0, harness.HookForwarded, model.OutcomeEncapTunneled),
	)
	fast(ofNode("encapsulation of 1 in 100", 0), sampled.encapsulating(size), base,
		harness.Want{Hook: harness.HookForwarded, Outcome: model.OutcomeEncapTunneled, Share: sampled.share()})
	fast(
		ofNode("transit", 0),
		tunnel.transiting(size, transit(datapath.AttachXDP)),
		traced,
		harness.Has(0, harness.HookForwarded, model.OutcomeTraceFilled),
	)
	unread = tunnel.decapsulating(size)
	unread.Line[0] = decapsulate(tunnel.mode, false)
	fast(report.Dimensions{Treatment: "decapsulation", Format: "no reader of records"}, unread, traced,
		harness.Has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated), harness.Has(0, harness.HookForwarded, model.OutcomeNoIOAM))
	return list
}

// endsAlone is what source and sink do without a node between them.
const endsAlone = "source and sink alone"

// onBothCPUs collects variants on one CPU, and on two against that.
type onBothCPUs struct{ list []*harness.Variant }

// add adds a node's variants, each from a new value of make. Only the second CPU
// shows whether numbers are right when two CPUs take them.
func (b *onBothCPUs) add(d report.Dimensions, flows int, make func() *harness.Variant) {
	d.Way, d.Comparison, d.Size, d.Flows = report.WayFast, report.AgainstOneCPU, coresSize, flows
	var one *harness.Variant
	for _, cpus := range []int{1, 2} {
		v := make()
		v.SinkInXDP = true
		v.Send = v.Send.Varied(flows, 2, atSource)
		v.Send.Senders = cpus
		v.Shared = v.Exports != model.ExportNone
		v.Send.Yields = v.Shared
		b.list = append(b.list, v.At(d, float64(cpus), one))
		if one == nil {
			one, v.Audits = v, nil
			continue
		}
		if d.Treatment == endsAlone {
			continue
		}
		floor := report.Dimensions{
			Treatment:  endsAlone,
			By:         report.ByEmptyProgram,
			Way:        d.Way,
			Comparison: d.Comparison,
			Size:       d.Size,
			Flows:      manyFlows,
		}
		v.Aims(secondCPUAim, &report.Limit{
			Why:   "what source and sink lose with a second CPU, without a node between them",
			Floor: report.Reference{Variant: floor},
		})
	}
}

// twoAgainstOne has every treatment by a node that forwards fast.
func twoAgainstOne() []*harness.Variant {
	plain := harness.Stream{Frame: harness.Plain(harness.Destination, coresSize)}
	var b onBothCPUs
	b.add(report.Dimensions{Treatment: endsAlone, By: report.ByEmptyProgram}, manyFlows, func() *harness.Variant {
		return &harness.Variant{Send: plain, Arrives: unchanged}
	})
	node := func(treatment, format string, t harness.Treatment, frame []byte, arrives harness.Arrival, outcome model.Outcome,
		wants ...harness.Want) {
		b.add(report.Dimensions{Treatment: treatment, Format: format}, manyFlows, func() *harness.Variant {
			v := leaves(forwardingFast(t), arrives, outcome, wants...)
			v.Send.Frame = frame
			return v
		})
	}
	ids, times := trace(namespace, typeIDs), trace(namespace, typeTimes)
	through := transit(datapath.AttachXDP)
	node(plainPackets, "", through, plain.Frame, unchanged, model.OutcomeNoIOAM)
	node(transitTreatment, withIDs, through, filling(coresSize, ids), filled, model.OutcomeTraceFilled)
	node(transitTreatment, withTimes, through, filling(coresSize, times), filled, model.OutcomeTraceFilled)
	node(transitTreatment, nineNamespaces, through, filling(coresSize, tracesInEach(mostOptions)...), filled, model.OutcomeTraceFilled)
	node(
		inlineTreatment,
		withIDs,
		encapsulate(model.ModeInline, always, oneNode(typeIDs)),
		plain.Frame,
		longer(24),
		model.OutcomeEncapInserted,
	)
	node(tunnelTreatment, withIDs, encapsulate(model.ModeEncap, always, oneNode(typeIDs)), plain.Frame, longer(64), model.OutcomeEncapTunneled)
	node(decapsulating, noReader, decapsulate(model.ModeEncap, false), tunnelled(plain.Frame[harness.EthernetHeader:], ids), longer(-64),
		model.OutcomeNoIOAM, harness.Has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated))
	b.sampled(plain)
	b.directExport(plain)
	return b.list
}

// sampled adds traces in some of the packets, however many CPUs count them.
func (b *onBothCPUs) sampled(plain harness.Stream) {
	frequency := model.Frequency{K: 1, N: sampledOneIn}
	tunnel := forwardingFast(encapsulate(model.ModeEncap, frequency, oneNode(typeIDs)))
	longer := harness.IPv6Header + shortHeader
	b.add(report.Dimensions{Treatment: tunnelTreatment + " of 1 in 100", Format: withIDs}, manyFlows, func() *harness.Variant {
		return &harness.Variant{
			Line: []harness.Treatment{tunnel}, Send: plain, Arrives: sometimesLonger(longer),
			Wants:  []harness.Want{{Hook: harness.HookForwarded, Outcome: model.OutcomeEncapTunneled, Share: 1. / sampledOneIn}},
			Audits: &harness.Audit{Length: coresSize + longer, OneIn: sampledOneIn},
		}
	})
}

// directExport adds Direct Export. Where it is inserted, one flow is the hardest
// case, because all CPUs number its packets; a network card gives each CPU its own
// flows.
func (b *onBothCPUs) directExport(plain harness.Stream) {
	x := directExport{role: model.RoleTransit, flags: bothExtensions, kind: typeNodeID, fast: true}
	option := directExportOption(x.kind, x.flags)
	for _, w := range []exportWay{aggregated, everyRead} {
		b.add(report.Dimensions{Treatment: "Direct Export, transit", Format: w.name}, 1, func() *harness.Variant {
			v := x.exporting(w).inEach()
			v.Send = numbered(filling(coresSize, option), atSequence)
			return v
		})
	}
	unwrap := x
	unwrap.role, unwrap.mode = model.RoleDecapsulating, model.ModeEncap
	for _, w := range []exportWay{aggregated, everyRead} {
		b.add(report.Dimensions{Treatment: "Direct Export, decapsulation", Format: w.name}, 1, func() *harness.Variant {
			v := unwrap.exporting(w).inEach()
			v.Send = numbered(tunnelled(plain.Frame[harness.EthernetHeader:], option), atSequence)
			return v
		})
	}
	x.role = model.RoleEncapsulating
	for _, each := range []struct {
		exportWay
		treatment    string
		oneIn, flows int
		apart        bool
		thorough     bool // others show it in short runs
	}{
		{aggregated, "Direct Export, insertion", 1, manyFlows, true, false},
		{aggregated, "Direct Export, insertion", 1, manyFlows, false, true},
		{aggregated, "Direct Export, insertion", 1, 1, false, false},
		{everyRead, "Direct Export, insertion", 1, manyFlows, true, true},
		{everyRead, "Direct Export, insertion", 1, 1, false, false},
		{aggregated, "Direct Export, insertion in 1 of 100", sampledOneIn, 1, false, false},
	} {
		d := report.Dimensions{Treatment: each.treatment, Format: each.name}
		if each.apart {
			d.Format += ", each CPU its own flows"
		}
		b.add(d, each.flows, func() *harness.Variant {
			y := x.exporting(each.exportWay)
			v := &harness.Variant{
				Line: []harness.Treatment{y.node(each.oneIn)}, Send: plain,
				Arrives: y.arrives(), Wants: y.wants(1 / float64(each.oneIn)), Exports: y.way,
			}
			v.Send.Apart = each.apart
			v.Thorough = each.thorough
			if each.flows == 1 {
				v.Audits = &harness.Audit{Length: coresSize + y.overhead(), Number: atSequence, OneIn: each.oneIn}
			}
			return v
		})
	}
}
