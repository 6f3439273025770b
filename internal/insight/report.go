// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// Report says what a time was like: where packets went, how long each hop held them, how long they took
// to the next, where they were lost, and which hop differs from what is usual. Its JSON names are a
// contract, as those of all types below.
type Report struct {
	Since         instant.Time `json:"since"` // begin of the first interval
	Until         instant.Time `json:"until"`
	CompleteSince instant.Time `json:"complete_since"` // from when on intervals are kept
	Watched       int64        `json:"watched_ns"`     // for how long of it records were made
	Records       uint64       `json:"records"`
	LeftOut       uint64       `json:"left_out"`
	ClockError    *int64       `json:"clock_error_ns"` // by which a difference of two clocks may be wrong; null: unknown
	Pairs         []PairReport `json:"pairs"`
	Queues        *Queues      `json:"queues"` // of this node; null: not measured
	Filtered      *Filtered    `json:"filtered,omitempty"`
}

// Filtered says that a report has only packets that pass a filter, and since when these are counted.
type Filtered struct {
	Since      instant.Time `json:"since"`
	Undecided  uint64       `json:"undecided"`  // records for which the expression has no result
	Unexamined uint64       `json:"unexamined"` // records that came too fast for the expression: the report has a sample
}

// PairReport is the traffic from one prefix to another. Series are of the intervals of the time.
type PairReport struct {
	Source      string       `json:"source"`
	Destination string       `json:"destination"`
	Packets     uint64       `json:"packets"`
	Loss        Loss         `json:"loss,omitzero"`
	Paths       []PathReport `json:"paths"`
}

// PathReport is one path of a pair.
type PathReport struct {
	ID         string      `json:"path"`
	Flow       string      `json:"flow,omitempty"`
	FlowID     uint32      `json:"flow_id,omitempty"`
	Packets    uint64      `json:"packets"`
	Share      float64     `json:"share"` // of the pair's packets, from 0 to 1
	Incomplete uint64      `json:"incomplete"`
	Loss       *Loss       `json:"loss"` // the sum over the hops, of the packets that the first one sent; null: that of a hop is not known
	Delay      *Quantiles  `json:"delay"`
	Hops       []HopReport `json:"hops"`
}

// Verdict is what a hop is said to be.
type Verdict string

// Verdicts.
const (
	Slow      Verdict = "slow"      // in an interval, the 95th percentile of held, or to the next, was beyond what is usual
	Loses     Verdict = "loses"     // packets were lost after it
	Uncertain Verdict = "uncertain" // of a part of the time, it is not known what was lost after it
)

// HopReport is one node of a path.
type HopReport struct {
	Place
	Packets      uint64     `json:"packets"`
	Held         *Quantiles `json:"held"`
	Queued       *Quantiles `json:"queued"` // in the queue of its egress interface; null: not measured, or at another node
	ToNext       *Quantiles `json:"to_next"`
	HeldIncluded bool       `json:"held_included,omitempty"`
	Queue        *Depth     `json:"queue,omitempty"`
	Loss         Loss       `json:"loss,omitzero"`
	Uncertain    uint64     `json:"blocks_uncertain,omitempty"` // of which it is not known what was lost: they are not in Loss
	Baseline     *Baseline  `json:"baseline,omitempty"`
	Verdicts     []Verdict  `json:"verdicts"`
	// Series is the 95th percentile of Held and ToNext together in each interval; -1: no packet.
	Series []int64 `json:"series"`
}

// Quantiles are those of delays. Null is what two clocks cannot tell: it is negative, or smaller than
// they may differ.
type Quantiles struct {
	Count    uint64 `json:"count"`
	P50      *int64 `json:"p50_ns"`
	P95      *int64 `json:"p95_ns"`
	P99      *int64 `json:"p99_ns"`
	Max      *int64 `json:"max_ns"`
	Sum      uint64 `json:"sum_ns"` // without negative ones
	Negative uint64 `json:"negative"`
}

// quantiles are those of delays by two clocks, of one clock if clock is below 0.
func quantiles(d *exponential.Delays, negative uint64, clock int64) *Quantiles {
	if d.Count() == 0 {
		return nil
	}
	q := &Quantiles{Count: d.Count(), Sum: d.Sum(), Negative: negative}
	at := func(part float64) *int64 {
		ns := d.Quantile(part)
		if ns < clock || ns == 0 && negative > 0 {
			return nil
		}
		return &ns
	}
	q.P50, q.P95, q.P99, q.Max = at(0.5), at(0.95), at(0.99), at(1)
	return q
}

// oneClock says that delays are by one clock.
const oneClock = -1

// ClockError is by how much a difference of two clocks may be wrong; below 0: unknown.
func (e *Engine) ClockError() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clock
}

// Report makes a report of a time. Further names are for prefixes that have none.
func (e *Engine) Report(since, until, now time.Time, names ...NamedPrefix) *Report {
	list, complete := e.Read(since, until, now)
	regroup(list, names)
	r := Summarize(list, e.ClockError())
	r.CompleteSince = instant.Of(complete.UTC())
	if len(list) == 0 {
		r.Since, r.Until = instant.Of(since.UTC()), instant.Of(until.UTC())
	}
	return r
}

// regroup gives pairs of prefixes without a name that of a prefix in which they are.
func regroup(list []*Interval, names []NamedPrefix) {
	if len(names) == 0 {
		return
	}
	known := make(map[string]string)
	rename := func(old string) string {
		if new, ok := known[old]; ok {
			return new
		}
		new := old
		if p, err := netip.ParsePrefix(old); err == nil {
			best := -1
			for i, n := range names {
				if n.Prefix.Bits() <= p.Bits() && n.Prefix.Contains(p.Addr()) && (best < 0 || n.Prefix.Bits() > names[best].Prefix.Bits()) {
					best = i
				}
			}
			if best >= 0 {
				new = cmp.Or(names[best].Name, names[best].Prefix.String())
			}
		}
		known[old] = new
		return new
	}
	for _, v := range list {
		for _, p := range v.Pairs {
			p.Source, p.Destination = rename(p.Source), rename(p.Destination)
		}
	}
}

// Summarize makes a report of intervals, the oldest first. clock is by how much a difference of two
// nodes' clocks may be wrong, in ns; below 0: unknown.
func Summarize(list []*Interval, clock int64) *Report {
	r := &Report{Pairs: []PairReport{}}
	if clock >= 0 {
		r.ClockError = &clock
	}
	sum := Interval{}
	pairs := make(map[ends]*pair)
	courses := make(map[*Path][]course)
	for n, v := range list {
		if n == 0 {
			r.Since = v.Start
		}
		r.Until = instant.Of(v.Start.Add(time.Duration(v.Length)))
		r.Watched += v.Watched
		r.Records += v.Records
		r.LeftOut += v.LeftOut
		for _, p := range v.Pairs {
			key := ends{p.Source, p.Destination}
			if pairs[key] == nil && len(pairs) >= mostPairs {
				key = ends{Other, Other}
			}
			all := pairs[key]
			if all == nil {
				all = newPair(key)
				pairs[key] = all
				sum.Pairs = append(sum.Pairs, &all.Pair)
			}
			all.Packets += p.Packets
			all.Loss.add(p.Loss)
			for _, path := range p.Paths {
				one := all.same(path)
				if one.ID == Other && path.ID != Other { // its hops are others than those of the rest
					path = &Path{ID: Other, Packets: path.Packets, Incomplete: path.Incomplete, Negative: path.Negative, Delay: path.Delay}
				}
				one.merge(path)
				for i := range path.Hops {
					if len(courses[one]) <= i {
						courses[one] = append(courses[one], course{series: slices.Repeat([]int64{-1}, len(list))})
					}
					c := &courses[one][i]
					c.series[n] = slowest(&path.Hops[i])
					c.slow = c.slow || path.Hops[i].isSlow(clock)
				}
			}
		}
	}
	sum.sort()
	for _, p := range sum.Pairs {
		out := PairReport{Source: p.Source, Destination: p.Destination, Packets: p.Packets, Loss: p.Loss, Paths: []PathReport{}}
		for _, path := range p.Paths {
			out.Paths = append(out.Paths, reportPath(path, p.Packets, clock, courses[path]))
		}
		r.Pairs = append(r.Pairs, out)
	}
	return r
}

// course is what a hop was like in one interval after another.
type course struct {
	series []int64 // see HopReport
	slow   bool    // in one of them
}

// same is the path of the sum that a path of an interval belongs to.
func (p *pair) same(path *Path) *Path {
	if path.measured() {
		key := flowKey{path.Flow, path.FlowID}
		if one := p.flows[key]; one != nil {
			return one
		}
		if len(p.flows) < mostMeasured {
			one := emptyLike(path)
			p.flows[key], p.Paths = one, append(p.Paths, one)
			return one
		}
	}
	for _, one := range p.Paths {
		if one.ID == path.ID && !one.measured() && (one.ID == Other || len(one.Hops) == len(path.Hops) && one.goesBy(path.Hops)) {
			return one
		}
	}
	if !path.measured() && (path.ID == Other || len(p.Paths)-len(p.flows) < mostPaths) {
		one := emptyLike(path)
		p.Paths = append(p.Paths, one)
		return one
	}
	return p.same(&Path{ID: Other})
}

// slowest is the greater 95th percentile of both, -1 of none.
func slowest(h *Hop) int64 {
	ns := int64(-1)
	for _, d := range []*exponential.Delays{&h.Held, &h.ToNext} {
		if d.Count() > 0 {
			ns = max(ns, d.Quantile(0.95))
		}
	}
	return ns
}

func reportPath(p *Path, all uint64, clock int64, courses []course) PathReport {
	out := PathReport{
		ID:         p.ID,
		Flow:       p.Flow,
		FlowID:     p.FlowID,
		Packets:    p.Packets,
		Incomplete: p.Incomplete,
		Hops:       []HopReport{},
		Delay:      quantiles(&p.Delay, p.Negative, clock),
	}
	if all > 0 {
		out.Share = float64(p.Packets) / float64(all)
	}
	for i := range p.Hops {
		h := &p.Hops[i]
		one := HopReport{
			Place:        h.Place,
			Packets:      h.Packets,
			HeldIncluded: h.HeldIncluded,
			Loss:         h.Loss,
			Uncertain:    h.Uncertain,
			Baseline:     h.Baseline,
			Verdicts:     []Verdict{},
			Series:       []int64{},
			Held:         quantiles(&h.Held, 0, oneClock),
			ToNext:       quantiles(&h.ToNext, h.Negative, clock),
		}
		if h.Queue.Count > 0 {
			one.Queue = &h.Queue
		}
		if i < len(courses) {
			one.Series = courses[i].series
			if courses[i].slow {
				one.Verdicts = append(one.Verdicts, Slow)
			}
		}
		if ratio, known := h.Loss.Ratio(); known && h.Loss.Lost > 0 && ratio >= losesFrom {
			one.Verdicts = append(one.Verdicts, Loses)
		}
		if h.Uncertain > 0 {
			one.Verdicts = append(one.Verdicts, Uncertain)
		}
		out.Hops = append(out.Hops, one)
	}
	out.Loss = p.lossOfAll()
	return out
}

// lossOfAll is the sum over all hops, nil if it is not known: a hop of which nothing is known may have lost all.
func (p *Path) lossOfAll() *Loss {
	var all Loss
	for i := range p.Hops {
		h := &p.Hops[i]
		if h.Uncertain > 0 {
			return nil
		}
		all.Lost += h.Loss.Lost
		all.Sent = cmp.Or(all.Sent, h.Loss.Sent)
	}
	if all.Sent == 0 {
		return nil
	}
	return &all
}

// isSlow reports whether the hop was slow in an interval, as the constants in baseline.go define it. Single
// intervals are judged, because a queue that is slow lets fewer packets pass: in a longer time, those from
// before would outnumber them.
func (h *Hop) isSlow(clock int64) bool {
	slow := func(d *exponential.Delays, usual *int64, clock int64) bool {
		return usual != nil && d.Count() >= leastPackets && isSlow(d.Quantile(0.95), *usual, clock)
	}
	b := h.Baseline
	return b != nil && (slow(&h.Held, b.Held, 0) || slow(&h.ToNext, b.ToNext, clock))
}

// Name adds the names of nodes and interfaces, as far as they are known.
func (r *Report) Name(names *nodenames.Names) {
	for i := range r.Pairs {
		for j := range r.Pairs[i].Paths {
			hops := r.Pairs[i].Paths[j].Hops
			for k := range hops {
				hops[k].name(names)
			}
		}
	}
}

// name adds names of the widths that the ids have.
func (p *Place) name(names *nodenames.Names) {
	var known string
	var link func(id uint64) string
	switch {
	case p.NodeID == 0:
		return
	case p.Wide:
		node := ioam.NodeIDWide(p.NodeID)
		known, link = names.NodeWide(node), func(id uint64) string { return names.InterfaceWide(node, ioam.InterfaceIDWide(id)) }
	default:
		node := ioam.NodeID(p.NodeID)
		known, link = names.Node(node), func(id uint64) string { return names.Interface(node, ioam.InterfaceID(id)) }
	}
	p.Node = cmp.Or(p.Node, known)
	if p.IngressID != 0 {
		p.IngressName = link(p.IngressID)
	}
	if p.EgressID != 0 {
		p.EgressName = link(p.EgressID)
	}
}
