// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// Aims of fast forwarding: the least multiples of the rate at which the kernel
// forwards plain packets.
const (
	fastAim          = 3
	fastTimedAim     = 2.6
	fastAggregateAim = 2.8 // Direct Export in every packet, added up to flows
	fastEveryAim     = 1.5 // a postcard for every packet
	fastNineAim      = 1.5 // nine namespaces
	askingAim        = 1.75

	bareAim = 0.95 // of the rate of a bare prototype of the same work
)

// fastExperiment measures forwarding without the stack, and the kernel's own.
func fastExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "bytes", Axis: "bytes of a frame without IOAM; packets with an option have as many where it fits",
		Baseline: "the same packets forwarded by the kernel to the same sink: no program, ioam6_enabled off; " +
			"of links with one queue and with one for each CPU, those with which the kernel is faster",
		Apart: true, Together: 10,
		Notes: []string{"A sink in tc makes the kernel build an skb for each redirected frame, which is not the node's work; " +
			"a sink in XDP takes it as it is: the aims are for that, and for the comparison with plain packets.",
			"A bare prototype is an XDP program that does one treatment to all packets: it parses them, fills, adds or removes, and forwards by a cache of next hops. " +
				"It validates little, counts nothing and has no configuration; what it takes is the floor of that treatment.",
			"\"No cache\": as with rules by ports, the kernel is asked for the way of every packet.",
			"Direct Export is in every packet. Postcards and flows are read, encoded as IPFIX, sent and received on another CPU. " +
				"A postcard that finds no room in its ring costs the node less than one that does: see how many were lost."},
	}
	for _, size := range sizes {
		var lists [][]*harness.Variant
		for _, links := range fastLinks {
			list := fastVariants(size, links)
			lists = append(lists, list)
			e.Variants = append(e.Variants, list...)
		}
		rival(lists[0], lists[1])
		rival(lists[2], lists[3])
	}
	return e
}

// fastLinks are the links of each line; two in turn are rivals.
var fastLinks = []harness.Links{{Queues: 1, SinkInXDP: true}, {SinkInXDP: true}, {Queues: 1}, {}}

// rival has variants compared with the faster of two lists' kernels.
func rival(one, other []*harness.Variant) {
	for i, v := range one {
		if v.Is.By == report.ByKernel {
			v.Rival, other[i].Rival = other[i], v
		}
	}
}

// Sinks, named by the hook where they take packets.
const (
	sinkTC  = "tc"
	sinkXDP = "XDP"
)

// Names of treatments that fast forwarding is combined with.
const (
	transitTreatment = "transit"
	inlineTreatment  = "encapsulation inline"
	tunnelTreatment  = "encapsulation in a tunnel"
	insertion        = "insertion"
	decapsulating    = "decapsulation"
	noReader         = "no reader of records"
	nineNamespaces   = "a trace in each of 9 namespaces"
)

// fastRows collects the variants of one frame size on one kind of links.
type fastRows struct {
	size  int
	links harness.Links
	list  []*harness.Variant
	bare  *harness.Variant // plain packets, forwarded by the kernel
}

func (r *fastRows) add(d report.Dimensions, v, against *harness.Variant) *harness.Variant {
	d.Sink = sinkTC
	if v.SinkInXDP, v.Queues = r.links.SinkInXDP, r.links.Queues; v.SinkInXDP {
		d.Sink = sinkXDP
	}
	d.Queues = r.links.Queues
	if against != r.bare {
		v.Plain = r.bare
	}
	r.list = append(r.list, v.At(d, float64(r.size), against))
	return v
}

// kernel adds packets that the kernel forwards.
func (r *fastRows) kernel(format string, send harness.Stream) *harness.Variant {
	v := untreatedPackets(report.Dimensions{}, 0, send.Frame, 1)
	v.Send = send
	return r.add(kernelForwards(format), v, nil)
}

// own adds the kernel's own IOAM.
func (r *fastRows) own(format string, against *harness.Variant) {
	v := &harness.Variant{Line: []harness.Treatment{kernelOwn}, Send: against.Send, Arrives: filled}
	r.add(report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM, Format: format}, v, against)
}

// fast adds a node that forwards fast. The aim and what may keep it from that are
// for the sink that leaves the node's work alone.
func (r *fastRows) fast(
	d report.Dimensions,
	v, against *harness.Variant,
	aim float64,
	limit func(report.Dimensions) *report.Limit,
) *harness.Variant {
	d.Way, d.NoCache, v.Send = report.WayFast, v.Line[0].Asks, against.Send
	if r.add(d, v, against); v.SinkInXDP && aim != 0 {
		v.PlainAim, v.Limit = aim, limit(v.Is)
	}
	return v
}

// leaves is a node whose packets all have an outcome where they leave.
func leaves(t harness.Treatment, arrives harness.Arrival, outcome model.Outcome, wants ...harness.Want) *harness.Variant {
	return &harness.Variant{
		Line: []harness.Treatment{t}, Arrives: arrives,
		Wants: append(wants, harness.Has(0, harness.HookForwarded, outcome)),
	}
}

func fastVariants(size int, links harness.Links) []*harness.Variant {
	r := &fastRows{size: size, links: links}
	inner := harness.Plain(harness.Destination, size)[harness.EthernetHeader:]
	r.bare = r.kernel(plainPackets, harness.Stream{Frame: harness.Plain(harness.Destination, size)})
	ids := r.kernel("trace with ids", harness.Stream{Frame: filling(size, trace(namespace, typeIDs))})
	times := r.kernel("trace with timestamps", harness.Stream{Frame: filling(size, trace(namespace, typeTimes))})
	tunnel := r.kernel(tunnelledTrace, harness.Stream{Frame: tunnelled(inner, trace(namespace, typeIDs))})
	r.own(withIDs, ids)
	r.own(withTimes, times)

	through := forwardingFast(transit(datapath.AttachXDP))
	inline := forwardingFast(encapsulate(model.ModeInline, always, oneNode(typeIDs)))
	wrap := forwardingFast(encapsulate(model.ModeEncap, always, oneNode(typeIDs)))
	unwrap := forwardingFast(decapsulate(model.ModeEncap, false))
	removed := harness.Has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated)
	is := func(treatment, format string) report.Dimensions {
		return report.Dimensions{Treatment: treatment, Format: format}
	}
	ours := []*harness.Variant{
		r.fast(is(plainPackets, ""), leaves(through, unchanged, model.OutcomeNoIOAM), r.bare, 0, nil),
		r.fast(is(transitTreatment, withIDs), leaves(through, filled, model.OutcomeTraceFilled), ids, fastAim, fastLimit),
		r.fast(is(transitTreatment, withTimes), leaves(through, filled, model.OutcomeTraceFilled), times, fastTimedAim, fastLimit),
		r.fast(is(inlineTreatment, withIDs), leaves(inline, longer(24), model.OutcomeEncapInserted), r.bare, fastAim, fastLimit),
		r.fast(is(tunnelTreatment, withIDs), leaves(wrap, longer(64), model.OutcomeEncapTunneled), r.bare, fastAim, fastLimit),
		r.fast(is(decapsulating, noReader), leaves(unwrap, longer(-64), model.OutcomeNoIOAM, removed), tunnel, fastAim, fastLimit),
	}
	if !links.SinkInXDP {
		return r.list // with more work for each packet, the sink makes less of a difference
	}
	asking := []*harness.Variant{
		r.fast(is(plainPackets, ""), leaves(through.Asking(), unchanged, model.OutcomeNoIOAM), r.bare, 0, nil),
		r.fast(is(transitTreatment, withIDs), leaves(through.Asking(), filled, model.OutcomeTraceFilled), ids, askingAim, fastLimit),
		r.fast(is(tunnelTreatment, withIDs), leaves(wrap.Asking(), longer(64), model.OutcomeEncapTunneled), r.bare, askingAim, fastLimit),
		r.fast(is(decapsulating, noReader), leaves(unwrap.Asking(), longer(-64), model.OutcomeNoIOAM, removed), tunnel, askingAim, fastLimit),
	}
	nine := r.severalTraces(through)
	r.directExport()
	if links.Queues == 1 {
		r.prototypes(append(ours, nine), asking[1:])
	}
	return r.list
}

// severalTraces adds packets with a trace in each of as many namespaces as one header
// may have.
func (r *fastRows) severalTraces(through harness.Treatment) *harness.Variant {
	nine := r.kernel(nineNamespaces, harness.Stream{Frame: filling(r.size, tracesInEach(mostOptions)...)})
	r.own(nineNamespaces, nine)
	is := report.Dimensions{Treatment: transitTreatment, Format: nineNamespaces}
	return r.fast(is, leaves(through, filled, model.OutcomeTraceFilled), nine, fastNineAim, fastLimit)
}

// tracesInEach are traces with ids, one in each of n namespaces.
func tracesInEach(namespaces int) (list [][]byte) {
	for _, option := range pathInEach(namespaces, typeIDs) {
		list = append(list, trace(option.Namespace, option.Type))
	}
	return list
}

// directExport adds Direct Export in every packet: inserted, on its way, and
// removed.
func (r *fastRows) directExport() {
	x := directExport{flags: bothExtensions, kind: typeNodeID, fast: true}
	option := directExportOption(x.kind, x.flags)
	inner := harness.Plain(harness.Destination, r.size)[harness.EthernetHeader:]
	carrying := r.kernel("Direct Export", numbered(filling(r.size, option), atSequence))
	tunnel := r.kernel("tunnelled with Direct Export", numbered(tunnelled(inner, option), atSequence))
	for _, role := range []struct {
		name    string
		is      model.NodeRole
		mode    model.Mode
		against *harness.Variant
	}{
		{insertion, model.RoleEncapsulating, model.ModeInline, r.bare},
		{transitTreatment, model.RoleTransit, model.ModeInline, carrying},
		{decapsulating, model.RoleDecapsulating, model.ModeEncap, tunnel},
	} {
		x.role, x.mode = role.is, role.mode
		for _, w := range []struct {
			exportWay
			aim float64
		}{
			{aggregated, fastAggregateAim},
			{everyExported, fastEveryAim},
		} {
			d := report.Dimensions{Treatment: exportAt(role.name), Format: w.name}
			r.fast(d, x.exporting(w.exportWay).inEach(), role.against, w.aim, fastExportLimit(w.way))
		}
	}
}

// exportAt is what Direct Export at a node is called.
func exportAt(node string) string { return "Direct Export, " + node }

// numbered are frames with a Sequence Number.
func numbered(frame []byte, at int) harness.Stream {
	return harness.Stream{Frame: frame, Every: 1, Numbered: at}
}

// inEach is the node with an option in every packet.
func (x directExport) inEach() *harness.Variant {
	return &harness.Variant{Line: []harness.Treatment{x.node(1)}, Arrives: x.arrives(), Wants: x.wants(1), Exports: x.way}
}
