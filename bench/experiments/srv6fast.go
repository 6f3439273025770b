// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// nextHopsKept is room for the next hops of as many flows as there are, where flows
// have different segments.
const nextHopsKept = 2 * model.DefaultMeasuredFlows

// reducedHeadEnd is headEnd with a reduced list: the first segment is only the
// destination.
var reducedHeadEnd = segmentNode{
	name: "head end, reduced", direction: model.DirectionOut,
	commands: func(int) []string {
		return []string{
			tunnelSource,
			routeToSIDs,
			fmt.Sprintf("route add %s/128 encap seg6 mode encap.red segs %s,%s,%s dev n1", harness.Destination, sid(1, 0), sid(2, 0), sid(3, 0)),
		}
	},
	packets:  headEnd.packets,
	numbered: headEnd.numbered,
	arrives:  func(...byte) harness.Arrival { return longer(outerHeaders - 16) },
	reduced:  true,
}

// crossing is endpoint with a next hop of its own.
var crossing = segmentNode{
	name: "End.X", direction: model.DirectionTransit,
	commands: func(int) []string {
		return []string{routeToSIDs, fmt.Sprintf("route add %s/128 encap seg6local action End.X nh6 %s %s", sid(2, 0), linkNext, endpointRoute)}
	},
	packets:  endpoint.packets,
	numbered: endpoint.numbered,
	arrives:  endpoint.arrives,
}

// transitOfSegments is a router on the way from one segment to the next.
var transitOfSegments = segmentNode{
	name: "no endpoint", direction: model.DirectionTransit,
	commands: func(int) []string { return []string{routeToSIDs} },
	packets:  endpoint.packets,
	numbered: endpoint.numbered,
	arrives:  func(...byte) harness.Arrival { return unchanged },
}

// colouringAt is a segment endpoint at which measured flows begin: it gives their packets,
// which arrive with segments and the colour of another node, colours of its own.
func colouringAt(s segmentNode) segmentNode {
	s.direction, s.arrives = model.DirectionOut, recoloured
	s.marking = model.Marking{Mask: 0x0c, Colours: [2]uint8{0x08, 0x0c}}
	return s
}

// fastNodes are the nodes that forward without the stack, and in how many ways each measures
// the same packets.
var fastNodes = [][]segmentNode{
	{transitOfSegments},
	{headEnd},
	{reducedHeadEnd},
	{headEndInTunnel},
	{endpoint, colouringAt(endpoint)},
	{crossing, colouringAt(crossing)},
	{decapsulator},
}

// fastMeasuringAim is the multiple of the rate of the kernel's own SRv6, without measurement,
// that nodes reach which count and colour each packet.
const fastMeasuringAim = 2.5

// segmentForwardingExperiment measures SRv6 nodes that forward without the stack.
func segmentForwardingExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "flows", Axis: "measured flows; packets are of each in turn", Baseline: segmentsBaseline, Together: 3,
		Notes: []string{
			"Packets of 78 and 1236 bytes in a tunnel of three segments, on links with one queue and a sink in XDP. Who counts and colours is where measured flows begin: at \"End\" and \"End.X\", their packets arrive with segments. A head end that adds a tunnel to packets of another one counts the flows of that, where they arrive.",
			"Packets of different flows go on to different segments at \"End\", \"End.X\" and \"no endpoint\": with 65536 flows, the cache has room for 131072 next hops.",
		},
	}
	for _, size := range sizes {
		for _, ways := range fastNodes {
			for _, n := range flowCounts {
				r := ways[0].rows(size, n)
				free := r.forward(unmeasured, 0)
				for _, r.segmentNode = range ways {
					r.measureFast(n, free.Is)
				}
				thorough := size != sizes[0] || n != flowCounts[0] && n != flowCounts[len(flowCounts)-1]
				for _, v := range r.list {
					v.SinkInXDP, v.Thorough = true, thorough
				}
				e.Variants = append(e.Variants, r.list...)
			}
		}
	}
	return e
}

// measureFast adds the node with all flows measured, which has an aim if it colours.
func (r *segmentRows) measureFast(flows int, free report.Dimensions) {
	v := r.forward(r.measuredName(), flows)
	v.Counted = true
	if r.direction != model.DirectionOut {
		return
	}
	why := "what the same programs take with no flow measured"
	if flows == flowCounts[len(flowCounts)-1] {
		why += " (keys and counters of this number of flows exceed the near caches)"
	}
	v.Aims(fastMeasuringAim, &report.Limit{Why: why, Floor: report.Reference{Variant: free}})
}

// forward adds a variant in which the node forwards fast and measures that many flows.
func (r *segmentRows) forward(name string, measured int) *harness.Variant {
	d := r.is(name, "", "")
	d.Way = report.WayFast
	t := r.kernel(r.number)
	t.Name = fmt.Sprintf("%s, fast, %s, %d flows measured", t.Name, name, measured)
	t.Attach, t.Fast = datapath.AttachXDP, true
	s := r.segmentNode
	t.Config = func(in, out model.IfIndex) model.NodeConfig {
		c := place(measuringConfig(), in, out)
		c.Measurement = s.measurement(measured)
		return c
	}
	if r.number >= nextHopsKept/2 {
		t = t.Remembering(nextHopsKept)
	}
	colours := []byte{0}
	if measured > 0 {
		colours = r.colours()
	}
	v := r.add(d, t, colours...)
	v.Wants = []harness.Want{harness.Has(0, harness.HookForwarded, model.OutcomeNoIOAM)}
	return v
}
