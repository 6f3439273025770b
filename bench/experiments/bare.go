// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// A bare prototype does to all packets what a node of ours does to those that match its
// configuration, and nothing else. What it takes is the floor of that treatment.
const (
	barePrototype = "bare prototype"
	whyBare       = "a bare prototype of the same treatment"
)

// bareOf are the dimensions of the prototype of a treatment.
func bareOf(treatment, format string) report.Dimensions {
	return report.Dimensions{Treatment: barePrototype + ", " + treatment, By: report.ByBareProgram, Format: format}
}

// headers are what an encapsulating node adds: options in a Hop-by-Hop header, and an
// IPv6 header in front of that with a tunnel.
func headers(mode model.Mode, options ...model.TraceOption) []byte {
	inline := hopByHop(harness.NextIPv6, nil, header(options, 1)...)
	if mode == model.ModeInline {
		return inline
	}
	return harness.IPv6(harness.TunnelStart, harness.TunnelEnd, harness.NextHBH, inline)
}

// adding is the prototype of an encapsulating node.
func adding(mode model.Mode, options ...model.TraceOption) harness.Bare {
	return harness.Bare{Added: headers(mode, options...), Tunnel: mode == model.ModeEncap}
}

// fillingBare is the prototype of a transit node, for traces in n namespaces.
func fillingBare(n int, kind ioam.TraceType) harness.Bare {
	return harness.Bare{Traces: n, Namespace: namespace, Words: kind.NodeLen()}
}

// removingBare is the prototype of a decapsulating node, for tunnels whose headers have
// this many bytes.
func removingBare(bytes int) harness.Bare { return harness.Bare{Removed: bytes} }

// throughStack leaves a prototype's packets to the stack.
func throughStack(b harness.Bare) harness.Bare {
	b.Stack = true
	return b
}

// bareRow is one treatment by a prototype.
type bareRow struct {
	is      report.Dimensions
	does    harness.Bare
	against *harness.Variant
	arrives harness.Arrival
}

func (b bareRow) variant() *harness.Variant {
	does := harness.DoBare(b.is.Treatment+", "+b.is.Format, b.does)
	if b.does.Asks {
		does = does.Asking()
	}
	return &harness.Variant{Line: []harness.Treatment{does}, Send: b.against.Send, Arrives: b.arrives}
}

// prototypes adds bare prototypes that forward without the stack, next to our nodes
// that do the same work: with the cache of next hops, and asking the kernel.
func (r *fastRows) prototypes(ours, asking []*harness.Variant) {
	one := oneNode(typeIDs)
	rows := []struct {
		treatment, format string
		does              harness.Bare
		arrives           harness.Arrival
	}{
		{plainPackets, "", harness.Bare{}, unchanged},
		{transitTreatment, withIDs, fillingBare(1, typeIDs), filled},
		{transitTreatment, withTimes, fillingBare(1, typeTimes), filled},
		{inlineTreatment, withIDs, adding(model.ModeInline, one), longer(shortHeader)},
		{tunnelTreatment, withIDs, adding(model.ModeEncap, one), longer(tunnelHeaders)},
		{decapsulating, "", removingBare(tunnelHeaders), longer(-tunnelHeaders)},
		{transitTreatment, nineNamespaces, fillingBare(mostOptions, typeIDs), filled},
	}
	add := func(i int, node *harness.Variant) {
		row := bareRow{bareOf(rows[i].treatment, rows[i].format), rows[i].does, node.Against, rows[i].arrives}
		row.is.NoCache, row.does.Asks = node.Is.NoCache, node.Is.NoCache
		v := row.variant()
		r.add(row.is, v, row.against)
		v.Thorough = r.size != sizes[0]
		node.Bare = v
		if !node.Is.NoCache {
			node.BareAim = bareAim
		}
	}
	for i, node := range ours {
		add(i, node)
	}
	for k, i := range []int{1, 4, 5} {
		add(i, asking[k])
	}
}

// prototypes adds bare prototypes whose packets the stack forwards.
func (r *stackRows) prototypes(tunnel *harness.Variant) {
	one, timed := oneNode(typeIDs), oneNode(typeTimes)
	for _, row := range []bareRow{
		{bareOf(inlineTreatment, withIDs), throughStack(adding(model.ModeInline, one)), r.bare, longer(shortHeader)},
		{bareOf(tunnelTreatment, withIDs), throughStack(adding(model.ModeEncap, one)), r.bare, longer(tunnelHeaders)},
		{bareOf(tunnelTreatment, withTimes), throughStack(adding(model.ModeEncap, timed)), r.bare, longer(tunnelHeaders + 8)},
		{bareOf(decapsulating, ""), throughStack(removingBare(tunnelHeaders)), tunnel, longer(-tunnelHeaders)},
	} {
		v := row.variant()
		r.add(row.is, v, row.against)
		v.Thorough = r.size != sizes[0] || r.queues != 1
	}
}

// addPrototypes adds those of the nodes of an experiment with a tunnel through the stack.
func addPrototypes(e *harness.Experiment, c carried, size int, x float64, base *harness.Variant) {
	added := overhead(c.mode, c.options)
	entering := &harness.Variant{Send: harness.Stream{Frame: harness.Plain(harness.Destination, size)}}
	passing := &harness.Variant{Send: harness.Stream{Frame: c.packet(size, 1)}}
	leaving := &harness.Variant{Send: harness.Stream{Frame: c.packet(size, 2)}}
	for _, row := range []bareRow{
		{bareOf(encapsulatingNode, ""), throughStack(adding(c.mode, c.options...)), entering, longer(added)},
		{bareOf(transitNode, ""), throughStack(fillingBare(len(c.options), c.options[0].Type)), passing, filled},
		{bareOf(decapsulatingNode, ""), throughStack(removingBare(added)), leaving, longer(-added)},
	} {
		row.is.Size = size
		v := row.variant().At(row.is, x, base)
		v.Thorough = true
		e.Variants = append(e.Variants, v)
	}
}
