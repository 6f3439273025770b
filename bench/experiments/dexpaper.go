// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"math"
	"slices"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The experiments of the paper on Direct Export in Linux, with its parameters:
// one node on one CPU, packets of 1500 bytes, and an option in a percentage of
// them. Our own follow, with the parameters that matter here.

// percents of the packets that have an option; paperPercents are the paper's.
var (
	percents      = []float64{1, 10, 100}
	paperPercents = []float64{0.001, 0.01, 0.1, 1, 5, 10, 25, 50, 100}
)

// Aims through the stack: the share of the rate of the same node without Direct
// Export that must remain at least. With fast forwarding, fastAggregateAim is the
// least multiple of the kernel's rate for plain packets.
const (
	rareExportAim = 0.995 // an option in one of `rarely` packets
	rarely        = 100
	aggregateAim  = 0.94 // in all of them, added up to flows
	everyAim      = 0.80 // in all of them, each with a postcard that is exported
)

// paperTypes are the trace types of the paper, which finds that they make no
// difference; all other experiments use the first.
var paperTypes = []ioam.TraceType{
	typeNodeID, 0x400000, 0x200000, typeFraction, 0x040000, 0x020000, 0x008000, 0x004000, typeNamespaceWide,
}

// someTypes are the types that short runs measure, too.
var someTypes = []ioam.TraceType{typeNodeID, typeFraction, typeNamespaceWide}

// Trace types: a time, data of 8 octets, and one that is not in the paper.
const (
	typeFraction      ioam.TraceType = 0x100000
	typeNamespaceWide ioam.TraceType = 0x002000
	typeOnlyDelay     ioam.TraceType = 0x080000
)

// exportWay is a way to export, with or without a reader.
type exportWay struct {
	name string
	way  model.ExportMode
	read harness.Reading
}

var (
	everyUnread   = exportWay{"no reader of records", model.ExportEvery, harness.Unread}
	everyRead     = exportWay{"every, postcards read", model.ExportEvery, harness.ReadOnly}
	everyExported = exportWay{"every, " + string(harness.Exported), model.ExportEvery, harness.Exported}
	aggregated    = exportWay{"aggregate", model.ExportAggregate, harness.Exported}
	sampled       = exportWay{"sample of 1 in 100", model.ExportSample, harness.Exported}
)

func (x directExport) exporting(w exportWay) directExport {
	x.way, x.read = w.way, w.read
	return x
}

// parameter is something other than the export mode that an experiment varies.
type parameter struct {
	name string
	set  func(*directExport)
}

func wayOf(fast bool) report.Way {
	if fast {
		return report.WayFast
	}
	return report.WayStack
}

// directExports makes the variants of an experiment. Variants of one node with
// the same packets share what they are compared with.
type directExports struct {
	harness.Experiment
	shared map[likeness]*harness.Variant
}

// likeness identifies variants without Direct Export that can be shared.
type likeness struct {
	node                    string
	length, every, numbered int
	fast                    bool
}

// bare is a variant with packets without an option, otherwise sent like those of
// x, through a node.
func (d *directExports) bare(x directExport, is report.Dimensions, t harness.Treatment, size, n int) *harness.Variant {
	send := x.packets(size, n, false)
	key := likeness{t.Name, len(send.Frame), send.Every, send.Numbered, x.fast}
	if d.shared[key] == nil {
		d.shared[key] = &harness.Variant{Is: is, Line: []harness.Treatment{t}, Send: send, SinkInXDP: x.fast, Arrives: unchanged}
	}
	return d.shared[key]
}

// kernelForwarding is the kernel, which the nodes are compared with. Nodes that forward
// fast are compared with the faster of two: on links with a queue for each CPU, as the
// node's are, and on links with one, where the kernel does not hash packets.
func (d *directExports) kernelForwarding(x directExport, size, n int) *harness.Variant {
	v := d.bare(x, kernelForwards(""), untreated, size, n)
	if !x.fast || v.Rival != nil {
		return v
	}
	is := kernelForwards(plainPackets)
	is.Way, is.Size = report.WayFast, size
	one := *v
	one.Queues, one.Rival, v.Rival = 1, v, &one
	for _, each := range []*harness.Variant{v, &one} {
		is.Queues = each.Queues
		each.Thorough = true
		d.Variants = append(d.Variants, each.At(is, 100/float64(max(n, 1)), nil)) // 0: all packets are alike
	}
	return v
}

func (d *directExports) sameNode(x directExport, size, n int) *harness.Variant {
	return d.bare(x, report.Dimensions{Treatment: "the same node without Direct Export"}, x.without().node(1), size, n)
}

// twin adds the node without Direct Export a second time, on another line: it differs
// from what it is compared with by noise alone.
func (d *directExports) twin(x directExport, size, n int) {
	base := d.sameNode(x, size, n)
	again := base.Line[0]
	again.Name += ", again"
	is := report.Dimensions{Treatment: sameNodeAgain, By: report.ByTwin, Way: wayOf(x.fast), Size: size}
	v := &harness.Variant{Line: []harness.Treatment{again}, Send: base.Send, SinkInXDP: x.fast, Arrives: unchanged, Thorough: true}
	d.Variants = append(d.Variants, v.At(is, 100/float64(n), base))
}

// sameNodeAgain is what a twin is called.
const sameNodeAgain = "the same node without Direct Export, on another line"

// add adds the node with an option in a percentage of the packets, compared with
// itself without Direct Export.
func (d *directExports) add(x directExport, is report.Dimensions, percent float64) *harness.Variant {
	size := is.Size
	n := int(math.Round(100 / percent))
	v := &harness.Variant{
		Line: []harness.Treatment{x.node(n)}, Send: x.packets(size, n, true), SinkInXDP: x.fast,
		Arrives: x.arrives(), Wants: x.wants(1 / float64(n)), Exports: x.way,
	}
	d.Variants = append(d.Variants, v.At(is, percent, d.sameNode(x, size, n)))
	return v
}

// ways adds a way to export and its aims, also compared with the kernel's plain
// forwarding.
func (d *directExports) ways(x directExport, w exportWay, size int) {
	for _, percent := range percents {
		is := report.Dimensions{Treatment: w.name, Way: wayOf(x.fast), Size: size}
		v := d.add(x.exporting(w), is, percent)
		v.Plain = d.kernelForwarding(x, size, v.Send.Every)
		switch {
		case x.fast && w.way == model.ExportAggregate && percent == 100:
			v.PlainAim = fastAggregateAim
		case x.fast || w.read != harness.Exported:
		case percent == 100./rarely:
			v.Aim = rareExportAim
		case percent == 100 && w.way == model.ExportAggregate:
			v.Aim = aggregateAim
		case percent == 100 && w.way == model.ExportEvery:
			v.Aim = everyAim
		}
		is.Treatment = everyUnread.name
		v.Limit = exportLimit(is, w.way)
	}
}

// parameters adds variants that differ in a parameter; short runs only measure
// those with an option in every packet.
func (d *directExports) parameters(x directExport, list []parameter) {
	for _, fast := range []bool{false, true} {
		for _, w := range []exportWay{everyRead, aggregated, sampled} {
			for _, p := range list {
				each := x.exporting(w)
				each.fast = fast
				p.set(&each)
				for _, percent := range percents {
					is := report.Dimensions{Treatment: p.name, Comparison: report.ByParameter, Export: w.name, Way: wayOf(fast), Size: longPacket}
					v := d.add(each, is, percent)
					v.Thorough = percent < 100
				}
			}
		}
	}
}

// asPublished adds what the paper's figures show, at all its percentages. The
// paper's options have no extension.
func (d *directExports) asPublished(x directExport, list []parameter) {
	x = x.exporting(everyRead)
	x.flags = 0
	for _, p := range list {
		each := x
		p.set(&each)
		for _, percent := range paperPercents {
			v := d.add(each, report.Dimensions{Treatment: everyRead.name, Format: p.name, Comparison: report.AsInPaper, Size: longPacket}, percent)
			v.Thorough = !slices.Contains(percents, percent) || !slices.Contains(someTypes, each.kind)
		}
	}
}

// prices adds what the kernel and our programs cost for packets with an option
// when Direct Export is not configured.
func (d *directExports) prices(x directExport, size int) {
	for _, percent := range percents {
		n := int(math.Round(100 / percent))
		base, node := d.kernelForwarding(x, size, n), x.without().node(1)
		add := func(is report.Dimensions, v *harness.Variant) {
			is.Comparison, is.Size = report.AgainstKernel, size
			d.Variants = append(d.Variants, v.At(is, percent, base))
		}
		with := x.packets(size, n, true)
		add(
			report.Dimensions{Treatment: "the kernel alone", By: report.ByKernel, Format: "packets with the option"},
			&harness.Variant{Line: []harness.Treatment{untreated}, Send: with, Arrives: unchanged},
		)
		unconfigured := report.Dimensions{Treatment: "our programs, nothing of Direct Export configured", Format: plainPackets}
		add(unconfigured, &harness.Variant{Line: []harness.Treatment{node}, Send: base.Send, Arrives: unchanged})
		unconfigured.Format = "packets with the option"
		add(unconfigured, &harness.Variant{Line: []harness.Treatment{node}, Send: with, Arrives: x.arrives(), Wants: x.wants(1 / float64(n))})
	}
}

// dexExperiment has all ways to export, then our parameters, then the paper's.
func dexExperiment(x directExport, parameters, published []parameter) harness.Experiment {
	d := &directExports{shared: make(map[likeness]*harness.Variant), Experiment: harness.Experiment{
		X: "percent", Axis: "percent of the packets that have an option", Apart: true, Together: 6,
		Baseline: "the same node without Direct Export, and packets of the same length without an option",
		Notes:    dexNotes,
	}}
	for _, size := range []int{shortPacket, longPacket} {
		for _, fast := range []bool{false, true} {
			for _, w := range []exportWay{everyUnread, everyRead, everyExported, aggregated, sampled} {
				each := x
				each.fast = fast
				d.ways(each, w, size)
			}
		}
		d.twin(x, size, rarely)
		if x.role != model.RoleEncapsulating {
			d.prices(x, size)
		}
	}
	d.parameters(x, parameters)
	d.asPublished(x, published)
	return d.Experiment
}

var dexNotes = []string{
	"An option is of trace type 0x800000, with Flow-ID and Sequence Number, in a tunnel where it is removed and inline elsewhere; " +
		"\"by parameter\" changes one of these. 78 bytes are a frame without an option, 1500 a packet with one.",
	"\"As in the paper\" has the paper's own parameters: options without an extension, and one of these changed. " +
		"It has all nine trace types; of those, \"by parameter\" has one whose data is of 8 octets.",
	"Limits of exports are set so that they are not met. Whoever reads is on another CPU than source, node and sink: postcards are thrown away (\"read\"), " +
		"or encoded as IPFIX, sent over UDP in messages of 1452 octets, and received there, too. \"Aggregate\" and \"sample\" are exported like that, each second.",
	"A postcard that finds no room in its ring costs the node less than one that does: see how many were lost.",
	"In the rows \"against plain packets\", fast forwarding and the kernel's forwarding both send to a sink in XDP. The kernel was measured on links with one queue and on links with a queue for each CPU; the ratio is to the faster of the two.",
	"\"On another line\" is the same node as the baseline, with the same packets: what it differs by is noise. Aims of less are within noise.",
	"\"Against the kernel's plain forwarding\" has that of plain packets of the same length as its baseline.",
}

func ofType(kind ioam.TraceType) parameter {
	return parameter{"trace type " + kind.String(), func(x *directExport) { x.kind = kind }}
}

func inMode(name string, mode model.Mode, derived bool) parameter {
	return parameter{name, func(x *directExport) { x.mode, x.derived = mode, derived }}
}

var (
	noExtension   = parameter{"no extension", func(x *directExport) { x.flags = 0 }}
	flowAlone     = parameter{"Flow-ID alone", func(x *directExport) { x.flags = ioam.ExtensionFlowID }}
	allExtensions = parameter{"Flow-ID and Sequence Number", func(x *directExport) { x.flags = bothExtensions }}

	givenSource   = inMode("in a tunnel of given source", model.ModeEncap, false)
	derivedSource = inMode("in a tunnel of derived source", model.ModeEncap, true)
	automatic     = inMode("mode auto, in a tunnel of derived source", model.ModeAuto, true)
	inTunnel      = inMode("in a tunnel", model.ModeEncap, false)
	inline        = inMode("inline", model.ModeInline, false)
)

// publishedParameters are those of the paper's figures: trace types, extensions,
// and modes where it varies them.
func publishedParameters(modes ...parameter) []parameter {
	var list []parameter
	for _, kind := range paperTypes {
		list = append(list, ofType(kind))
	}
	return append(append(list, flowAlone, allExtensions), modes...)
}

// dexEncapsulationExperiment corresponds to figures 3 to 5.
func dexEncapsulationExperiment() harness.Experiment {
	x := directExport{role: model.RoleEncapsulating, flags: bothExtensions, kind: typeNodeID}
	return dexExperiment(x,
		[]parameter{noExtension, flowAlone, ofType(typeNamespaceWide), givenSource, automatic},
		publishedParameters(givenSource, derivedSource))
}

// dexTransitExperiment corresponds to figures 6 and 7.
func dexTransitExperiment() harness.Experiment {
	x := directExport{role: model.RoleTransit, flags: bothExtensions, kind: typeNodeID}
	return dexExperiment(x,
		[]parameter{noExtension, flowAlone, ofType(typeNamespaceWide), ofType(typeOnlyDelay), inTunnel},
		publishedParameters())
}

// dexDecapsulationExperiment corresponds to figures 8 and 9, which use a tunnel.
func dexDecapsulationExperiment() harness.Experiment {
	x := directExport{role: model.RoleDecapsulating, mode: model.ModeEncap, flags: bothExtensions, kind: typeNodeID}
	return dexExperiment(x,
		[]parameter{noExtension, flowAlone, ofType(typeNamespaceWide), inline},
		publishedParameters())
}
