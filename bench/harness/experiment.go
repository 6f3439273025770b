// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// Experiment is a table of variants: what is sent through which lines, and the
// expected result. A new experiment is a new table; RunExperiment measures it.
type Experiment struct {
	Axis     string // what x is
	X        string // short form of Axis
	Baseline string // what the ratio compares with
	Variants []*Variant
	Notes    []string
	// Apart keeps readers of samples off the forwarding CPU.
	Apart bool
	// Together is how many variants share one measurement of what they are
	// compared with; 0 is one.
	Together int
}

// Variant is one point of a curve: packets that cross a line.
type Variant struct {
	Is      report.Dimensions // its curve
	X       float64
	Line    []Treatment // one for each node
	Send    Stream
	Arrives Arrival
	Wants   []Want
	// Counted says that each packet is of a flow that the first node measures.
	Counted bool
	// Timed measures the least time from source to sink instead of packets per
	// second at the sink.
	Timed bool
	// SinkInXDP takes packets before the kernel makes an skb of them. Only
	// packets that the node redirects in XDP need no skb.
	SinkInXDP bool
	// Queues is how many each link has; 0: one for each CPU. A kernel that has
	// several hashes each packet to choose one.
	Queues int

	// Against is the variant that this one is compared with; nil compares with
	// itself.
	Against *Variant
	// Plain is like Against without a Hop-by-Hop header, where Against has one.
	Plain *Variant
	// Bare is a bare prototype of the same work, which takes its turn with this
	// variant; nil: there is none.
	Bare *Variant
	// Rival is the same packets in other lines, for a baseline: variants are
	// compared with the faster of the two.
	Rival *Variant
	// Aim, PlainAim and BareAim are the least ratios to Against, Plain and Bare that
	// the project wants; 0: none. Limit says what may keep it from the aim.
	Aim, PlainAim, BareAim float64
	Limit                  *report.Limit
	// Exports is how the first node exports the packets that Wants[0] counts;
	// none for packets that carry nothing to export.
	Exports model.ExportMode
	// Shared keeps those that read the exports to the CPUs that send, where they
	// go first: all work is then done by these CPUs, however many they are.
	Shared bool
	// Audits checks the numbers in packets before the first measurement; nil: there
	// are none.
	Audits *Audit
	// Thorough variants are only measured in full runs.
	Thorough bool

	key    string // of Line
	looked bool   // whether what arrives was checked on the present set-up
}

// Aims sets a variant's aim, and the limit that may keep it from that.
func (v *Variant) Aims(aim float64, l *report.Limit) { v.Aim, v.Limit = aim, l }

// PlainAims sets the aim of a variant that is compared with plain packets, too.
func (v *Variant) PlainAims(aim float64, l *report.Limit) { v.PlainAim, v.Limit = aim, l }

// At sets a variant's curve, x and comparison.
func (v *Variant) At(d report.Dimensions, x float64, against *Variant) *Variant {
	v.Is, v.X, v.Against = d, x, against
	return v
}

// Arrival compares what arrived at the sink with what was sent.
type Arrival func(sent, arrived []byte) error

// Want says that a share of the packets must have an outcome at a node's hook.
type Want struct {
	Node    int // 0 is the first in the line
	Hook    datapath.Hook
	Outcome model.Outcome
	Share   float64 // 0: all packets
}

// HookForwarded stands for packets that a node forwards without the stack.
const HookForwarded datapath.Hook = "fast forwarding"

// Has returns the Want that all packets have an outcome at the node's ingress or
// egress.
func Has(node int, hook datapath.Hook, outcome model.Outcome) Want {
	return Want{Node: node, Hook: hook, Outcome: outcome}
}

// Brief is the experiment as a short run measures it.
func (e Experiment) Brief() Experiment {
	e.Variants = slices.DeleteFunc(slices.Clone(e.Variants), func(v *Variant) bool { return v.Thorough })
	for _, v := range e.Variants {
		if v.Bare != nil && v.Bare.Thorough {
			v.Bare = nil
		}
	}
	return e
}

// Ends returns the variants with the least and the greatest x of each curve.
func Ends(list []*Variant) []*Variant {
	end := make(map[report.Dimensions][2]float64)
	for _, v := range list {
		was, ok := end[v.Is]
		if !ok {
			was = [2]float64{v.X, v.X}
		}
		end[v.Is] = [2]float64{min(was[0], v.X), max(was[1], v.X)}
	}
	return slices.DeleteFunc(slices.Clone(list), func(v *Variant) bool { return v.X > end[v.Is][0] && v.X < end[v.Is][1] })
}

// EndsInPassing makes short runs measure only the ends of each curve.
func (e *Experiment) EndsInPassing() {
	kept := Ends(e.Variants)
	for _, v := range e.Variants {
		v.Thorough = !slices.Contains(kept, v)
	}
}

// LineKey identifies a line.
func (v *Variant) LineKey() string {
	var names []string
	for _, t := range v.Line {
		names = append(names, t.Name)
	}
	if v.SinkInXDP {
		names = append(names, "sink in XDP")
	}
	if v.Queues > 0 {
		names = append(names, fmt.Sprintf("queues: %d", v.Queues))
	}
	return strings.Join(names, " | ")
}
