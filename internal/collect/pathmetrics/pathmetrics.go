// SPDX-License-Identifier: Apache-2.0

// Package pathmetrics counts joined paths for Prometheus and OpenTelemetry: histograms of delays by path and by
// segment. The busiest have series of their own, and all others are added up.
package pathmetrics

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
)

// Classic buckets end at powers of two, from 1 µs to 17 s, each four times the one before: 2^10 ns is 1.024 µs.
const (
	firstBound = 10
	lastBound  = 34
	boundStep  = 2
)

var bounds = func() (list []float64) {
	for k := firstBound; k <= lastBound; k += boundStep {
		list = append(list, float64(uint64(1)<<k)/1e9)
	}
	return list
}()

var (
	descPath = &metrics.Desc{
		Name:   "waymark_joined_path_delay_seconds",
		Help:   "Time from the encapsulating to the decapsulating node, by the clocks of both, by path: the names of its nodes.",
		Labels: []string{"path"},
		Bounds: bounds,
	}
	descSegment = &metrics.Desc{
		Name:   "waymark_joined_segment_delay_seconds",
		Help:   "Time from one node to the next one that reported, by the clocks of both.",
		Labels: []string{"from", "to"},
		Bounds: bounds,
	}
	descHeld = &metrics.Desc{
		Name:   "waymark_joined_held_seconds",
		Help:   "How long the first node of a segment held packets.",
		Labels: []string{"from", "to"},
		Bounds: bounds,
	}
	descPackets = &metrics.Desc{
		Name:   "waymark_joined_packets_total",
		Help:   "Packets by path, joined from postcards or traced, and by what became of them: arrived, lost or unknown.",
		Labels: []string{"path", "verdict"},
	}
	descNegative = &metrics.Desc{
		Name:   "waymark_joined_segment_negative_total",
		Help:   "Packets whose time from one node to the next is negative, because the clocks differ. They are in no histogram.",
		Labels: []string{"from", "to"},
	}
	descSeries = &metrics.Desc{
		Name:   "waymark_joined_series",
		Help:   "Paths and segments that have series of their own, by kind; all others are in those that are named other.",
		Labels: []string{"kind"},
	}
)

const (
	// rankInterval is the time between two looks at which are the busiest.
	rankInterval = time.Minute
	// mostLabel bounds the name of a path, in octets.
	mostLabel = 256
	other     = "other"
	// lastNode is the segment after the last node that reported.
	lastNode = "none"
)

// verdicts are the values of that label, in the order of series.packets.
var verdicts = [...]record.PathVerdict{record.PathArrived, record.PathLost, record.PathUnknown}

// series is what is counted of one path or segment.
type series struct {
	labels       []string
	own          bool   // it has series of its own
	recent, busy uint64 // packets since the last look, and of all looks, the older the less

	packets     [len(verdicts)]uint64
	delay, held exponential.Delays
	negative    uint64
}

// family are all series of a kind.
type family struct {
	most  int
	own   int
	all   map[string]*series
	other series
}

func newFamily(most int) *family {
	return &family{most: most, all: map[string]*series{}}
}

// of is the series of a key, which is that of the labels; nil: there are too many.
func (f *family) of(key string, labels ...string) *series {
	s := f.all[key]
	if s == nil {
		if len(f.all) >= 8*f.most+1024 { // who makes up paths does not fill the memory
			return nil
		}
		s = &series{labels: labels}
		if f.own < f.most {
			s.own = true
			f.own++
		}
		f.all[key] = s
	}
	return s
}

// into is the series to count a packet into: its own, or that of all others.
func (f *family) into(s *series) *series {
	if s == nil {
		return &f.other
	}
	if s.recent++; s.own {
		return s
	}
	return &f.other
}

// rank gives series of their own to the busiest. One that has them loses them only to one that is more than twice
// as busy. New series begin at 0, and what was added up for all others stays there: no counter goes back.
func (f *family) rank() {
	var own, rest []*series
	for key, s := range f.all {
		s.busy, s.recent = s.busy/2+s.recent, 0
		switch {
		case s.own:
			own = append(own, s)
		case s.busy == 0:
			delete(f.all, key)
		default:
			rest = append(rest, s)
		}
	}
	slices.SortFunc(own, func(a, b *series) int { return cmp.Compare(a.busy, b.busy) })
	slices.SortFunc(rest, func(a, b *series) int { return cmp.Compare(b.busy, a.busy) })
	for _, s := range rest {
		if f.own >= f.most {
			if len(own) == 0 || s.busy <= 2*own[0].busy {
				return
			}
			*own[0] = series{labels: own[0].labels, busy: own[0].busy}
			own, f.own = own[1:], f.own-1
		}
		s.own = true
		f.own++
	}
}

// Counters count joined paths.
type Counters struct {
	mu       sync.Mutex
	paths    *family
	segments *family
	found    map[string]*place // by the nodes of a path, until the next look at which are the busiest
	key      []byte            // room for a key
	ranked   time.Time
	now      func() time.Time
}

// place are the series of one path. nil: that of all others.
type place struct {
	path     *series
	segments []*series
}

// mostPlaces bounds the paths that are found at once.
const mostPlaces = 1 << 14

// New makes counters that give series of their own to at most that number of paths, and of segments.
func New(most int) *Counters {
	return &Counters{paths: newFamily(most), segments: newFamily(most), found: map[string]*place{}, now: time.Now}
}

// Observe counts a record, if it is a path, or the trace of a packet of somebody's: probes, and copies that nodes send
// back, are no traffic.
func (c *Counters) Observe(r record.Record) {
	var p *record.Path
	switch r := r.(type) {
	case *record.Path:
		p = r
	case *record.Trace:
		if r.Active || r.Copy || len(r.Nodes) == 0 {
			return
		}
		p = pathOf(r)
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rank()
	at := c.place(p)
	s := c.paths.into(at.path)
	verdict := slices.Index(verdicts[:], p.Verdict)
	if verdict < 0 {
		verdict = len(verdicts) - 1
	}
	s.packets[verdict]++
	if p.Delay != nil && *p.Delay >= 0 {
		s.delay.Add(*p.Delay)
	}
	for i := range p.Nodes {
		s := c.segments.into(at.segments[i])
		if held := p.Nodes[i].TransitDelay; held.Valid {
			s.held.Add(int64(held.Value))
		}
		if i+1 == len(p.Nodes) || p.Nodes[i+1].SincePrevious == nil {
			continue
		}
		if since := *p.Nodes[i+1].SincePrevious; since < 0 {
			s.negative++
		} else {
			s.delay.Add(since)
		}
	}
}

// pathOf is the path of a trace, with what series are made of.
func pathOf(r *record.Trace) *record.Path {
	p := &record.Path{Verdict: record.PathArrived}
	if r.OnItsWay {
		p.Verdict = record.PathUnknown // the trace was seen before the end
	}
	var first, before time.Time
	for i := range r.Nodes {
		n := record.PathNode{Node: r.Nodes[i].NodeName, NodeData: r.Nodes[i]}
		if at := n.Timestamp; at.Valid {
			if before.IsZero() {
				first = at.Value
			} else {
				since, whole := at.Value.Sub(before).Nanoseconds(), at.Value.Sub(first).Nanoseconds()
				n.SincePrevious, p.Delay = &since, &whole
			}
			before = at.Value
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

// place finds the series of a path.
func (c *Counters) place(p *record.Path) *place {
	key := c.key[:0]
	for i := range p.Nodes {
		n := &p.Nodes[i]
		key = append(append(key, n.Node...), 0xff)
		if n.Node == "" {
			address := n.Exporter.As16()
			key = append(key, address[:]...)
			key = binary.BigEndian.AppendUint64(key, uint64(n.NodeIDWide.Value)^uint64(n.NodeID.Value))
		}
	}
	c.key = key
	at := c.found[string(key)]
	if at != nil {
		return at
	}
	if len(c.found) >= mostPlaces {
		clear(c.found)
	}
	names := make([]string, len(p.Nodes))
	for i := range p.Nodes {
		names[i] = nameOf(&p.Nodes[i])
	}
	way := strings.Join(names, ">")
	if len(way) > mostLabel {
		way = strings.ToValidUTF8(way[:mostLabel], "") + "…"
	}
	at = &place{path: c.paths.of(way, way)}
	for i := range names {
		to := lastNode
		if i+1 < len(names) {
			to = names[i+1]
		}
		at.segments = append(at.segments, c.segments.of(names[i]+"\xff"+to, names[i], to))
	}
	c.found[string(key)] = at
	return at
}

// nameOf is a node as a label: its name, or the address of its exporter with its id.
func nameOf(n *record.PathNode) string {
	id := ""
	switch {
	case n.Node != "":
		return record.Printable(n.Node)
	case n.NodeIDWide.Valid:
		id = strconv.FormatUint(uint64(n.NodeIDWide.Value), 10)
	case n.NodeID.Valid:
		id = strconv.FormatUint(uint64(n.NodeID.Value), 10)
	}
	switch {
	case !n.Exporter.IsValid():
		return cmp.Or(id, "?")
	case id == "":
		return n.Exporter.String()
	}
	return n.Exporter.String() + "/" + id
}

func (c *Counters) rank() {
	now := c.now()
	if since := now.Sub(c.ranked); c.ranked.IsZero() || since < 0 {
		c.ranked = now
	} else if since >= rankInterval {
		c.ranked = now
		clear(c.found)
		c.paths.rank()
		c.segments.rank()
	}
}

// Collect adds the metrics.
func (c *Counters) Collect(g *metrics.Gatherer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths.each(1, func(s *series, labels []string) {
		g.AddHistogram(descPath, histogramOf(&s.delay), labels...)
		for i, v := range verdicts {
			g.Add(descPackets, float64(s.packets[i]), labels[0], v.String())
		}
	})
	c.segments.each(2, func(s *series, labels []string) {
		if labels[1] != lastNode {
			g.AddHistogram(descSegment, histogramOf(&s.delay), labels...)
			g.Add(descNegative, float64(s.negative), labels...)
		}
		g.AddHistogram(descHeld, histogramOf(&s.held), labels...)
	})
	g.Add(descSeries, float64(c.paths.own), "path")
	g.Add(descSeries, float64(c.segments.own), "segment")
}

// each calls a function for each series of its own, and for the one of all others.
func (f *family) each(labels int, do func(*series, []string)) {
	for _, s := range f.all {
		if s.own && s.labels[0] != other { // a node of this name is among the others
			do(s, s.labels)
		} else if s.own {
			f.other.merge(s)
		}
	}
	do(&f.other, slices.Repeat([]string{other}, labels))
}

// merge adds what another one counted, which is then empty.
func (s *series) merge(o *series) {
	for i, n := range o.packets {
		s.packets[i] += n
	}
	s.negative += o.negative
	s.delay.Merge(&o.delay)
	s.held.Merge(&o.held)
	o.packets, o.negative, o.delay, o.held = [len(verdicts)]uint64{}, 0, exponential.Delays{}, exponential.Delays{}
}

// histogramOf has seconds, in buckets of the same width: a delay is counted in the one that has the middle of its own.
func histogramOf(d *exponential.Delays) metrics.Histogram {
	const perPower = 1 << exponential.DelayScale
	of := d.Histogram()
	h := metrics.Histogram{
		Sum: float64(
			d.Sum(),
		) / 1e9, Native: &exponential.Histogram{Scale: exponential.DelayScale, Zero: of.Zero}, Classic: make([]uint64, len(bounds)+1),
	}
	h.Classic[0] = of.Zero
	shift := math.Log2(1e9) * perPower
	for _, b := range of.Buckets {
		h.Native.Buckets = append(h.Native.Buckets, exponential.Bucket{Index: int(math.Ceil(float64(b.Index)+0.5-shift)) - 1, Count: b.Count})
		class := 0 // the first whose bound is not below the bucket's end
		for class < len(bounds) && b.Index+1 > perPower*(firstBound+boundStep*class) {
			class++
		}
		h.Classic[class] += b.Count
	}
	return h
}
