// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"slices"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The experiments of the two papers on IOAM for IPv6 in Linux, with their
// parameters. The later paper measures each of three machines in a row, with
// frames of 78 and 1236 bytes and a tunnel from the first to the third; here,
// each is a single node. The earlier paper measures a line of containers on one
// machine, with frames of 1200 bytes and inline insertion; here, it is a line of
// three nodes.

const (
	// hops is how many nodes write into a trace.
	hops = 3
	// roles is the number of our nodes' roles, plus the kernel's own transit
	// node.
	roles = 4
	// lineSize is the frame size in the experiments on a line, in bytes.
	lineSize = 1200
)

// fieldBits are the trace fields in the order in which the papers add them,
// judged by how much each adds: short ones first, then wide ones. The papers call
// a field an option.
var fieldBits = []int{
	ioam.BitNode, ioam.BitInterfaces, ioam.BitTimestampSeconds, ioam.BitTimestampFraction, ioam.BitTransitDelay, ioam.BitNamespaceData,
	ioam.BitNodeWide, ioam.BitInterfacesWide, ioam.BitNamespaceDataWide, ioam.BitQueueDepth, ioam.BitBufferOccupancy,
}

// fields is the trace type of the first n fields.
func fields(n int) (kind ioam.TraceType) {
	for _, bit := range fieldBits[:n] {
		kind |= 1 << (23 - bit)
	}
	return kind
}

// path is a trace with room for every node on the path.
func path(id ioam.NamespaceID, kind ioam.TraceType) model.TraceOption {
	return model.TraceOption{Namespace: id, Type: kind, Size: hops * dataSize(kind)}
}

// pathInEach is a trace of the type in each of this many namespaces.
func pathInEach(namespaces int, kind ioam.TraceType) []model.TraceOption {
	var list []model.TraceOption
	for i := range ioam.NamespaceID(namespaces) {
		list = append(list, path(namespace+i, kind))
	}
	return list
}

// header returns the options of a packet after the first nodes have written their
// data.
func header(options []model.TraceOption, written int) [][]byte {
	var list [][]byte
	for _, o := range options {
		list = append(list, traceOption(o, written))
	}
	return list
}

// overhead is how many bytes a mode adds to a packet.
func overhead(mode model.Mode, options []model.TraceOption) int {
	n := len(hopByHop(harness.NextNone, nil, header(options, 0)...))
	if mode == model.ModeEncap {
		n += harness.IPv6Header
	}
	return n
}

// carried describes the traces in an experiment's packets.
type carried struct {
	mode      model.Mode
	frequency model.Frequency
	options   []model.TraceOption
}

func (c carried) share() float64 { return float64(c.frequency.K) / float64(c.frequency.N) }

var always = model.Frequency{K: 1, N: 1}

// packet is a frame as it reaches a node after `written` other nodes, of the size
// that the mode gives to a plain frame.
func (c carried) packet(size, written int) []byte {
	if c.mode == model.ModeEncap {
		return tunnelled(harness.Plain(harness.Destination, size)[harness.EthernetHeader:], header(c.options, written)...)
	}
	return padded(size+overhead(c.mode, c.options), header(c.options, written)...)
}

// added is the outcome of encapsulation.
func (c carried) added() model.Outcome {
	if c.mode == model.ModeEncap {
		return model.OutcomeEncapTunneled
	}
	return model.OutcomeEncapInserted
}

func (c carried) removed() model.Outcome {
	if c.mode == model.ModeEncap {
		return model.OutcomeTunnelDecapsulated
	}
	return model.OutcomeInlineRemoved
}

// encapsulating is the node that adds the options (athos in the papers' line).
func (c carried) encapsulating(size int) *harness.Variant {
	arrives := longer(overhead(c.mode, c.options))
	if c.share() < 1 {
		arrives = sometimesLonger(overhead(c.mode, c.options))
	}
	return &harness.Variant{
		Line:    []harness.Treatment{encapsulate(c.mode, c.frequency, c.options...)},
		Send:    harness.Stream{Frame: harness.Plain(harness.Destination, size)},
		Arrives: arrives,
		Wants:   []harness.Want{{Hook: datapath.HookEgressTC, Outcome: c.added(), Share: c.share()}},
	}
}

// transiting is the node in the middle (porthos), with our programs or the
// kernel's IOAM.
func (c carried) transiting(size int, t harness.Treatment) *harness.Variant {
	v := &harness.Variant{Line: []harness.Treatment{t}, Send: harness.Stream{Frame: c.packet(size, 1)}, Arrives: filled}
	if t.Config != nil {
		v.Wants = transits()
	}
	return v
}

// transitingSome is the node in the middle when a share of the packets have
// traces, among plain ones of the same length. Its baseline gets only plain
// packets, from a source that does the same work.
func (c carried) transitingSome(size int, t harness.Treatment) (v, base *harness.Variant) {
	v = c.transiting(size, t)
	v.Send.Rest, v.Send.Every = harness.Plain(harness.Destination, len(v.Send.Frame)), int(c.frequency.N)
	for i := range v.Wants {
		v.Wants[i].Share = c.share()
	}
	v.Arrives = func(sent, arrived []byte) error {
		if sent[harness.AtNextHeader] != harness.NextHBH {
			return unchanged(sent, arrived)
		}
		return filled(sent, arrived)
	}
	base = untreatedPackets(ofNode(withoutIOAM, 0), 0, v.Send.Rest, 1)
	base.Send.Rest, base.Send.Every = v.Send.Rest, v.Send.Every
	return v, base
}

// addTransits adds the node in the middle, with our programs and with the
// kernel's IOAM.
func addTransits(e *harness.Experiment, c carried, size int, x float64) {
	ours, base := c.transitingSome(size, transit(datapath.AttachXDP))
	kernels, _ := c.transitingSome(size, kernelOwn)
	e.Variants = append(e.Variants,
		ours.At(ofNode(transitNode, size), x, base),
		kernels.At(ofKernelNode(transitNode, size), x, base))
}

// decapsulating is the node that removes the options (aramis).
func (c carried) decapsulating(size int) *harness.Variant {
	return &harness.Variant{
		Line:    []harness.Treatment{decapsulate(c.mode, true)},
		Send:    harness.Stream{Frame: c.packet(size, 2)},
		Arrives: longer(-overhead(c.mode, c.options)),
		Wants:   []harness.Want{harness.Has(0, datapath.HookIngressXDP, c.removed())},
	}
}

// whole is the line of all three nodes: nothing is left of the options after the
// last one.
func (c carried) whole(size int) *harness.Variant {
	return &harness.Variant{
		Line: []harness.Treatment{
			encapsulate(c.mode, c.frequency, c.options...).Called(1),
			transit(datapath.AttachXDP).Called(2),
			decapsulate(c.mode, true).Called(3),
		},
		Send:    harness.Stream{Frame: harness.Plain(harness.Destination, size)},
		Arrives: unchanged,
		Wants: []harness.Want{
			{Node: 0, Hook: datapath.HookEgressTC, Outcome: c.added(), Share: c.share()},
			{Node: 1, Hook: datapath.HookIngressXDP, Outcome: model.OutcomeTraceFilled, Share: c.share()},
			{Node: 2, Hook: datapath.HookIngressXDP, Outcome: c.removed(), Share: c.share()},
		},
	}
}

// ofNode are the dimensions of a node's treatment; size is 0 where curves do not
// differ in the packets' size.
func ofNode(treatment string, size int) report.Dimensions {
	return report.Dimensions{Treatment: treatment, Size: size}
}

// ofKernelNode is the same for the kernel's own IOAM.
func ofKernelNode(treatment string, size int) report.Dimensions {
	d := ofNode(treatment, size)
	d.By, d.Format = report.ByKernelIOAM, kernelsOwn
	return d
}

// What nodes do in the papers' experiments.
const (
	encapsulatingNode = "encapsulating node"
	transitNode       = "transit node"
	decapsulatingNode = "decapsulating node"
	threeNodes        = "line of three nodes"
	kernelsOwn        = "the kernel's own IOAM"
	theKernelsTransit = kernelsOwn + " transit"
	withoutIOAM       = "kernel without IOAM"
	ioamOn            = "IOAM on"
)

const (
	kernelBaseline = "plain packets of the same size, forwarded by the kernel: no program, no IOAM"
	mixesTransit   = "A transit node gets packets with traces among plain ones of their length, " +
		"and the node that it is compared with as many, all of them plain."
	namesNodes = "A node alone is compared with one plain node, the line of three with a line of three."
)

// baselineExperiment corresponds to figure 10 of the later paper and figure 8 of
// the earlier one.
func baselineExperiment() harness.Experiment {
	e := harness.Experiment{X: "bytes", Axis: "bytes of a plain frame", Baseline: kernelBaseline, Notes: []string{
		namesNodes, "\"Registered\": the programs run, and the packets match no encapsulation.",
	}}
	for _, size := range append(sizes, lineSize) {
		one := carried{model.ModeEncap, always, pathInEach(1, fields(1))}
		nodes, what := 1, encapsulatingNode
		on := one.encapsulating(size)
		if size == lineSize {
			one.mode, nodes, what = model.ModeInline, hops, threeNodes
			on = one.whole(size)
		}
		x := float64(size)
		state := func(format string) report.Dimensions { return report.Dimensions{Treatment: what, Format: format} }
		base := untreatedPackets(state(withoutIOAM), x, harness.Plain(harness.Destination, size), nodes)
		registered := &harness.Variant{Line: on.Line, Send: harness.Stream{Frame: harness.Plain(harness.Elsewhere, size)}, Arrives: unchanged}
		for i := range on.Line {
			registered.Wants = append(registered.Wants, harness.Has(i, datapath.HookEgressTC, model.OutcomeNoIOAM))
		}
		registered.Aims(registeredAim, registeredLimit(nodes))
		e.Variants = append(e.Variants, base, registered.At(state("registered, no IOAM"), x, base), on.At(state(ioamOn), x, base))
		if nodes == 1 {
			e.Variants = append(e.Variants,
				one.transiting(size, transit(datapath.AttachXDP)).At(report.Dimensions{Treatment: transitNode, Format: ioamOn}, x, base),
				one.transiting(size, kernelOwn).At(ofKernelNode(transitNode, 0), x, base),
				one.decapsulating(size).At(report.Dimensions{Treatment: decapsulatingNode, Format: ioamOn}, x, base))
		}
	}
	return e
}

// frequencyExperiment corresponds to figure 11 of the later paper and figure 9 of
// the earlier one.
func frequencyExperiment() harness.Experiment {
	e := harness.Experiment{
		X:        "percent",
		Axis:     "percent of the packets that get a trace",
		Baseline: kernelBaseline,
		Notes:    []string{namesNodes, mixesTransit},
	}
	for _, size := range append(sizes, lineSize) {
		nodes, mode := 1, model.ModeEncap
		if size == lineSize {
			nodes, mode = hops, model.ModeInline
		}
		base := untreatedPackets(ofNode(withoutIOAM, 0), 0, harness.Plain(harness.Destination, size), nodes)
		for _, one := range []uint32{10_000, 1000, 100, 50, 20, 10, 4, 2, 1} {
			c := carried{mode, model.Frequency{K: 1, N: one}, pathInEach(1, fields(1))}
			percent := 100 / float64(one)
			if nodes > 1 {
				e.Variants = append(e.Variants, c.whole(size).At(ofNode(threeNodes, size), percent, base))
				continue
			}
			e.Variants = append(e.Variants, c.encapsulating(size).At(ofNode(encapsulatingNode, size), percent, base))
			if isPowerOf10(one) {
				addTransits(&e, c, size, percent)
			}
		}
	}
	e.EndsInPassing()
	return e
}

func isPowerOf10(n uint32) bool {
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// addRoles adds each node alone, and the kernel's own transit node.
func addRoles(e *harness.Experiment, c carried, size int, x float64, base *harness.Variant) {
	e.Variants = append(e.Variants,
		c.encapsulating(size).At(ofNode(encapsulatingNode, size), x, base),
		c.transiting(size, transit(datapath.AttachXDP)).At(ofNode(transitNode, size), x, base),
		c.transiting(size, kernelOwn).At(ofKernelNode(transitNode, size), x, base),
		c.decapsulating(size).At(ofNode(decapsulatingNode, size), x, base))
}

// growing is an experiment with a header that grows.
func growing(x, axis string, most, mostOnLine int, options func(n int) []model.TraceOption) harness.Experiment {
	e := harness.Experiment{X: x, Axis: axis, Baseline: kernelBaseline, Notes: []string{namesNodes}, Together: roles}
	for _, size := range sizes {
		base := untreatedPackets(ofNode(withoutIOAM, 0), 0, harness.Plain(harness.Destination, size), 1)
		for n := 1; n <= most; n++ {
			addRoles(&e, carried{model.ModeEncap, always, options(n)}, size, float64(n), base)
		}
	}
	base := untreatedPackets(ofNode(withoutIOAM, 0), 0, harness.Plain(harness.Destination, lineSize), hops)
	for n := 1; n <= mostOnLine; n++ {
		c := carried{model.ModeInline, always, options(n)}
		e.Variants = append(e.Variants, c.whole(lineSize).At(ofNode(threeNodes, lineSize), float64(n), base))
	}
	e.EndsInPassing()
	return e
}

// optionsExperiment corresponds to figure 13 of the later paper and figure 10 of
// the earlier one.
func optionsExperiment() harness.Experiment {
	return growing("fields", "fields of one trace (\"options\" in the papers)", 9, len(fieldBits), func(n int) []model.TraceOption {
		return pathInEach(1, fields(n))
	})
}

// namespacesExperiment corresponds to figure 14 of the later paper and figure 11
// of the earlier one.
func namespacesExperiment() harness.Experiment {
	e := growing("namespaces", "namespaces, each with a trace of one field", mostOptions, mostOptions, func(n int) []model.TraceOption {
		return pathInEach(n, fields(1))
	})
	for _, v := range e.Variants {
		if node := v.Line[0]; len(v.Line) == 1 && node.Config != nil && v.X == mostOptions {
			v.Aims(namespacesAim, namespacesLimit(v.Is, v.Wants[0].Outcome))
		}
	}
	for _, size := range sizes {
		i := slices.IndexFunc(e.Variants, func(v *harness.Variant) bool { return v.Is.Size == size })
		addPrototypes(&e, carried{model.ModeEncap, always, pathInEach(mostOptions, fields(1))}, size, mostOptions, e.Variants[i].Against)
	}
	return e
}

// allInOneExperiment corresponds to the later paper's example: 800 bytes, 5%, 5
// namespaces with 3 fields each.
func allInOneExperiment() harness.Experiment {
	const size = 800
	e := harness.Experiment{
		X:        "percent",
		Axis:     "percent of the packets that get a trace",
		Baseline: kernelBaseline,
		Notes:    []string{namesNodes, mixesTransit},
	}
	for _, nodes := range []int{1, hops} {
		base := untreatedPackets(ofNode(withoutIOAM, 0), 0, harness.Plain(harness.Destination, size), nodes)
		for _, one := range []uint32{20, 1} {
			c := carried{model.ModeEncap, model.Frequency{K: 1, N: one}, pathInEach(5, fields(3))}
			v, name := c.encapsulating(size), encapsulatingNode
			if nodes > 1 {
				v, name = c.whole(size), threeNodes
			}
			e.Variants = append(e.Variants, v.At(ofNode(name, size), 100/float64(one), base))
			if nodes == 1 {
				addTransits(&e, c, size, 100/float64(one))
			}
		}
	}
	return e
}

// delayExperiment corresponds to figure 12 of the earlier paper.
func delayExperiment() harness.Experiment {
	e := harness.Experiment{
		X:        "namespaces",
		Axis:     "namespaces, each with a trace of one field",
		Baseline: "plain packets of the same size, forwarded by a kernel without IOAM",
		Notes:    []string{"The least delay of packets that are sent one by one, less that of plain packets."},
		Together: roles,
	}
	base := untreatedPackets(ofNode(withoutIOAM, 0), 0, harness.Plain(harness.Destination, lineSize), 1)
	base.Timed = true
	for n := 1; n <= 7; n++ {
		c, x := carried{model.ModeInline, always, pathInEach(n, fields(1))}, float64(n)
		e.Variants = append(e.Variants,
			c.encapsulating(lineSize).At(report.Dimensions{Treatment: "athos, encapsulating"}, x, base),
			c.transiting(lineSize, transit(datapath.AttachXDP)).At(report.Dimensions{Treatment: "porthos, transit"}, x, base),
			c.transiting(lineSize, kernelOwn).At(ofKernelNode("porthos", 0), x, base),
			c.decapsulating(lineSize).At(report.Dimensions{Treatment: "aramis, decapsulating"}, x, base))
	}
	for _, v := range e.Variants {
		v.Timed = true
	}
	e.EndsInPassing()
	return e
}

// kernelExperiment compares the kernel's own transit with ours, by what a node
// writes.
func kernelExperiment() harness.Experiment {
	e := harness.Experiment{
		X:        "bytes written",
		Axis:     "bytes that the node writes",
		Together: 3,
		Baseline: "the same packets forwarded by the kernel: no program, ioam6_enabled off",
	}
	for _, size := range sizes {
		forwards := func(format string) report.Dimensions {
			return report.Dimensions{Treatment: kernelForwarding, Format: format, Size: size}
		}
		bare := untreatedPackets(forwards(plainPackets), 0, harness.Plain(harness.Destination, size), 1)
		e.Variants = append(e.Variants, bare)
		for _, kind := range []ioam.TraceType{typeNodeID, typeIDs, typeTimes, typeDelay, typeAll} {
			x := float64(dataSize(kind))
			base := untreatedPackets(forwards("traced packets"), x, filling(size, trace(namespace, kind)), 1)
			list := []*harness.Variant{base}
			for _, t := range []struct {
				is report.Dimensions
				harness.Treatment
			}{
				{report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM, Size: size}, kernelOwn},
				{report.Dimensions{Treatment: ourTransit, Hook: "xdp", Size: size}, transit(datapath.AttachXDP)},
				{report.Dimensions{Treatment: ourTransit, Hook: "tcx", Size: size}, transit(datapath.AttachTCX)},
			} {
				v := &harness.Variant{Line: []harness.Treatment{t.Treatment}, Send: base.Send, Arrives: filled}
				if t.Config != nil {
					v.Wants = transits()
				}
				list = append(list, v.At(t.is, x, base))
			}
			for _, v := range list {
				v.Plain = bare
			}
			e.Variants = append(e.Variants, list...)
		}
	}
	return e
}
