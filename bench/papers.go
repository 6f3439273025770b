// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The experiments of the two papers on IOAM for IPv6 in Linux, at their
// parameters. The later one measures each of three machines in a row, with
// frames of 78 and 1236 bytes and a tunnel from the first to the third; the
// earlier one a line of containers on one machine, with frames of 1200 bytes
// and insertion inline. So the first are single nodes here, and the second is a
// line of three.

const (
	// hops is how many nodes write into a trace.
	hops = 3
	// roles are those of nodes, and the kernel's own.
	roles = 4
	// lineSize is the frame of the experiments on a line, in bytes.
	lineSize = 1200
)

// fieldBits are the trace fields in the order in which the papers add them, by
// what they say that each adds: short ones first, then wide ones. The
// publications call a field an option.
var fieldBits = []int{
	ioam.BitNode, ioam.BitInterfaces, ioam.BitTimestampSeconds, ioam.BitTimestampFraction, ioam.BitTransitDelay, ioam.BitNamespaceData,
	ioam.BitNodeWide, ioam.BitInterfacesWide, ioam.BitNamespaceDataWide, ioam.BitQueueDepth, ioam.BitBufferOccupancy,
}

// fields is the trace type of so many fields.
func fields(n int) (kind ioam.TraceType) {
	for _, bit := range fieldBits[:n] {
		kind |= 1 << (23 - bit)
	}
	return kind
}

// path is a trace with room for every node of the way.
func path(id ioam.NamespaceID, kind ioam.TraceType) model.TraceOption {
	return model.TraceOption{Namespace: id, Type: kind, Size: hops * dataSize(kind)}
}

// pathInEach is a trace of the type in each of so many namespaces.
func pathInEach(namespaces int, kind ioam.TraceType) []model.TraceOption {
	var list []model.TraceOption
	for i := range ioam.NamespaceID(namespaces) {
		list = append(list, path(namespace+i, kind))
	}
	return list
}

// header is the options of a packet whose first nodes have written their data.
func header(options []model.TraceOption, written int) [][]byte {
	var list [][]byte
	for _, o := range options {
		list = append(list, traceOption(o, written))
	}
	return list
}

// overhead is how many bytes a mode adds to a packet.
func overhead(mode model.Mode, options []model.TraceOption) int {
	n := len(hopByHop(nextNone, nil, header(options, 0)...))
	if mode == model.ModeEncap {
		n += ipv6Header
	}
	return n
}

// traces in packets of an experiment.
type carried struct {
	mode      model.Mode
	frequency model.Frequency
	options   []model.TraceOption
}

func (c carried) share() float64 { return float64(c.frequency.K) / float64(c.frequency.N) }

var always = model.Frequency{K: 1, N: 1}

// packet is a frame as it reaches a node after so many others: with the size
// that the mode gives to a plain one.
func (c carried) packet(size, written int) []byte {
	if c.mode == model.ModeEncap {
		return tunnelled(plain(destination, size)[ethernetHeader:], header(c.options, written)...)
	}
	return padded(size+overhead(c.mode, c.options), header(c.options, written)...)
}

// added and removed are the outcomes of encapsulation and decapsulation.
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

// encapsulating is the node that adds the options, athos.
func (c carried) encapsulating(size int) *variant {
	arrives := longer(overhead(c.mode, c.options))
	if c.share() < 1 {
		arrives = sometimesLonger(overhead(c.mode, c.options))
	}
	return &variant{
		line:    []treatment{encapsulate(c.mode, c.frequency, c.options...)},
		send:    stream{frame: plain(destination, size)},
		arrives: arrives,
		wants:   []want{{hook: datapath.HookEgressTC, outcome: c.added(), share: c.share()}},
	}
}

// transiting is the node in the middle, porthos, with our programs or the kernel's IOAM.
func (c carried) transiting(size int, t treatment) *variant {
	v := &variant{line: []treatment{t}, send: stream{frame: c.packet(size, 1)}, arrives: filled}
	if t.config != nil {
		v.wants = transits()
	}
	return v
}

// transitingSome is the node in the middle where a share of the packets have
// traces, among plain ones of their length; the node that it is compared with
// gets plain ones alone, from a source that does the same work.
func (c carried) transitingSome(size int, t treatment) (v, base *variant) {
	v = c.transiting(size, t)
	v.send.rest, v.send.every = plain(destination, len(v.send.frame)), int(c.frequency.N)
	for i := range v.wants {
		v.wants[i].share = c.share()
	}
	v.arrives = func(sent, arrived []byte) error {
		if sent[atNextHeader] != nextHBH {
			return unchanged(sent, arrived)
		}
		return filled(sent, arrived)
	}
	base = untreatedPackets(ofNode(withoutIOAM, 0), 0, v.send.rest, 1)
	base.send.rest, base.send.every = v.send.rest, v.send.every
	return v, base
}

// transits adds the node in the middle, ours and the kernel's.
func (e *experiment) transits(c carried, size int, x float64) {
	ours, base := c.transitingSome(size, transit(datapath.AttachXDP))
	kernels, _ := c.transitingSome(size, kernelOwn)
	e.variants = append(e.variants,
		ours.at(ofNode(transitNode, size), x, base),
		kernels.at(ofKernelNode(transitNode, size), x, base))
}

// decapsulating is the node that removes them, aramis.
func (c carried) decapsulating(size int) *variant {
	return &variant{
		line:    []treatment{decapsulate(c.mode, true)},
		send:    stream{frame: c.packet(size, 2)},
		arrives: longer(-overhead(c.mode, c.options)),
		wants:   []want{has(0, datapath.HookIngressXDP, c.removed())},
	}
}

// whole is the line of all three: nothing is left of it behind the last.
func (c carried) whole(size int) *variant {
	return &variant{
		line: []treatment{
			encapsulate(c.mode, c.frequency, c.options...).called(1),
			transit(datapath.AttachXDP).called(2),
			decapsulate(c.mode, true).called(3),
		},
		send:    stream{frame: plain(destination, size)},
		arrives: unchanged,
		wants: []want{
			{node: 0, hook: datapath.HookEgressTC, outcome: c.added(), share: c.share()},
			{node: 1, hook: datapath.HookIngressXDP, outcome: model.OutcomeTraceFilled, share: c.share()},
			{node: 2, hook: datapath.HookIngressXDP, outcome: c.removed(), share: c.share()},
		},
	}
}

// at gives a variant its place in a table.
func (v *variant) at(d report.Dimensions, x float64, against *variant) *variant {
	v.is, v.x, v.against = d, x, against
	return v
}

// ofNode is what a node does, with packets of a size where curves differ in that.
func ofNode(treatment string, size int) report.Dimensions {
	return report.Dimensions{Treatment: treatment, Size: size}
}

// ofKernelNode is the same of the kernel's own IOAM.
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
	mixesTransit   = "A transit node gets packets with traces among plain ones of their length, and the node that it is compared with as many, all of them plain."
	namesNodes     = "A node alone is compared with one plain node, the line of three with a line of three."
)

// baselineExperiment is figure 10 of the later paper, and 8 of the earlier.
func baselineExperiment() experiment {
	e := experiment{x: "bytes", axis: "bytes of a plain frame", baseline: kernelBaseline, notes: []string{
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
		base := untreatedPackets(state(withoutIOAM), x, plain(destination, size), nodes)
		registered := &variant{line: on.line, send: stream{frame: plain(elsewhere, size)}, arrives: unchanged}
		for i := range on.line {
			registered.wants = append(registered.wants, has(i, datapath.HookEgressTC, model.OutcomeNoIOAM))
		}
		registered.aims(idleAim, registeredLimit(nodes))
		e.variants = append(e.variants, base, registered.at(state("registered, no IOAM"), x, base), on.at(state(ioamOn), x, base))
		if nodes == 1 {
			e.variants = append(e.variants,
				one.transiting(size, transit(datapath.AttachXDP)).at(report.Dimensions{Treatment: transitNode, Format: ioamOn}, x, base),
				one.transiting(size, kernelOwn).at(ofKernelNode(transitNode, 0), x, base),
				one.decapsulating(size).at(report.Dimensions{Treatment: decapsulatingNode, Format: ioamOn}, x, base))
		}
	}
	return e
}

// frequencyExperiment is figure 11, and 9 of the earlier paper.
func frequencyExperiment() experiment {
	e := experiment{x: "percent", axis: "percent of the packets that get a trace", baseline: kernelBaseline, notes: []string{namesNodes, mixesTransit}}
	for _, size := range append(sizes, lineSize) {
		nodes, mode := 1, model.ModeEncap
		if size == lineSize {
			nodes, mode = hops, model.ModeInline
		}
		base := untreatedPackets(ofNode(withoutIOAM, 0), 0, plain(destination, size), nodes)
		for _, one := range []uint32{10_000, 1000, 100, 50, 20, 10, 4, 2, 1} {
			c := carried{mode, model.Frequency{K: 1, N: one}, pathInEach(1, fields(1))}
			percent := 100 / float64(one)
			if nodes > 1 {
				e.variants = append(e.variants, c.whole(size).at(ofNode(threeNodes, size), percent, base))
				continue
			}
			e.variants = append(e.variants, c.encapsulating(size).at(ofNode(encapsulatingNode, size), percent, base))
			if isPowerOf10(one) {
				e.transits(c, size, percent)
			}
		}
	}
	e.endsInPassing()
	return e
}

func isPowerOf10(n uint32) bool {
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// roles adds each node alone, and the kernel's own transit node.
func (e *experiment) roles(c carried, size int, x float64, base *variant) {
	e.variants = append(e.variants,
		c.encapsulating(size).at(ofNode(encapsulatingNode, size), x, base),
		c.transiting(size, transit(datapath.AttachXDP)).at(ofNode(transitNode, size), x, base),
		c.transiting(size, kernelOwn).at(ofKernelNode(transitNode, size), x, base),
		c.decapsulating(size).at(ofNode(decapsulatingNode, size), x, base))
}

// growing is an experiment on a header that grows.
func growing(x, axis string, most, mostOnLine int, options func(n int) []model.TraceOption) experiment {
	e := experiment{x: x, axis: axis, baseline: kernelBaseline, notes: []string{namesNodes}, together: roles}
	for _, size := range sizes {
		base := untreatedPackets(ofNode(withoutIOAM, 0), 0, plain(destination, size), 1)
		for n := 1; n <= most; n++ {
			e.roles(carried{model.ModeEncap, always, options(n)}, size, float64(n), base)
		}
	}
	base := untreatedPackets(ofNode(withoutIOAM, 0), 0, plain(destination, lineSize), hops)
	for n := 1; n <= mostOnLine; n++ {
		c := carried{model.ModeInline, always, options(n)}
		e.variants = append(e.variants, c.whole(lineSize).at(ofNode(threeNodes, lineSize), float64(n), base))
	}
	e.endsInPassing()
	return e
}

// optionsExperiment is figure 13, and 10 of the earlier paper.
func optionsExperiment() experiment {
	return growing("fields", "fields of one trace (\"options\" in the papers)", 9, len(fieldBits), func(n int) []model.TraceOption {
		return pathInEach(1, fields(n))
	})
}

// namespacesExperiment is figure 14, and 11 of the earlier paper.
func namespacesExperiment() experiment {
	e := growing("namespaces", "namespaces, each with a trace of one field", mostOptions, mostOptions, func(n int) []model.TraceOption {
		return pathInEach(n, fields(1))
	})
	for _, v := range e.variants {
		if node := v.line[0]; len(v.line) == 1 && node.config != nil && v.x == mostOptions {
			v.aims(namespacesAim, namespacesLimit(v.wants[0].outcome, len(v.against.send.frame)))
		}
	}
	return e
}

// allInOneExperiment is the later paper's example: 800 bytes, 5%, 5 namespaces
// with 3 fields each.
func allInOneExperiment() experiment {
	const size = 800
	e := experiment{x: "percent", axis: "percent of the packets that get a trace", baseline: kernelBaseline, notes: []string{namesNodes, mixesTransit}}
	for _, nodes := range []int{1, hops} {
		base := untreatedPackets(ofNode(withoutIOAM, 0), 0, plain(destination, size), nodes)
		for _, one := range []uint32{20, 1} {
			c := carried{model.ModeEncap, model.Frequency{K: 1, N: one}, pathInEach(5, fields(3))}
			v, name := c.encapsulating(size), encapsulatingNode
			if nodes > 1 {
				v, name = c.whole(size), threeNodes
			}
			e.variants = append(e.variants, v.at(ofNode(name, size), 100/float64(one), base))
			if nodes == 1 {
				e.transits(c, size, 100/float64(one))
			}
		}
	}
	return e
}

// delayExperiment is figure 12 of the earlier paper.
func delayExperiment() experiment {
	e := experiment{x: "namespaces", axis: "namespaces, each with a trace of one field", baseline: "plain packets of the same size, forwarded by a kernel without IOAM",
		notes: []string{"The least delay of packets that are sent one by one, less that of plain packets."}, together: roles}
	base := untreatedPackets(ofNode(withoutIOAM, 0), 0, plain(destination, lineSize), 1)
	base.timed = true
	for n := 1; n <= 7; n++ {
		c, x := carried{model.ModeInline, always, pathInEach(n, fields(1))}, float64(n)
		e.variants = append(e.variants,
			c.encapsulating(lineSize).at(report.Dimensions{Treatment: "athos, encapsulating"}, x, base),
			c.transiting(lineSize, transit(datapath.AttachXDP)).at(report.Dimensions{Treatment: "porthos, transit"}, x, base),
			c.transiting(lineSize, kernelOwn).at(ofKernelNode("porthos", 0), x, base),
			c.decapsulating(lineSize).at(report.Dimensions{Treatment: "aramis, decapsulating"}, x, base))
	}
	for _, v := range e.variants {
		v.timed = true
	}
	e.endsInPassing()
	return e
}

// kernelExperiment is the kernel's own transit beside ours, by what a node writes.
func kernelExperiment() experiment {
	e := experiment{x: "bytes written", axis: "bytes that the node writes", baseline: "the same packets forwarded by the kernel: no program, ioam6_enabled off"}
	for _, size := range sizes {
		forwards := func(format string) report.Dimensions {
			return report.Dimensions{Treatment: kernelForwarding, Format: format, Size: size}
		}
		bare := untreatedPackets(forwards(plainPackets), 0, plain(destination, size), 1)
		e.variants = append(e.variants, bare)
		for _, kind := range []ioam.TraceType{typeNodeID, typeIDs, typeTimes, typeDelay, typeAll} {
			x := float64(dataSize(kind))
			base := untreatedPackets(forwards("traced packets"), x, filling(size, trace(namespace, kind)), 1)
			list := []*variant{base}
			for _, t := range []struct {
				is report.Dimensions
				treatment
			}{
				{report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM, Size: size}, kernelOwn},
				{report.Dimensions{Treatment: ourTransit, Hook: "xdp", Size: size}, transit(datapath.AttachXDP)},
				{report.Dimensions{Treatment: ourTransit, Hook: "tcx", Size: size}, transit(datapath.AttachTCX)},
			} {
				v := &variant{line: []treatment{t.treatment}, send: base.send, arrives: filled}
				if t.config != nil {
					v.wants = transits()
				}
				list = append(list, v.at(t.is, x, base))
			}
			for _, v := range list {
				v.plain = bare
			}
			e.variants = append(e.variants, list...)
		}
	}
	return e
}
