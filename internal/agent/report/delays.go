// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// Delays hands out the histograms of delays that the data plane counts.
type Delays struct {
	service.Idle
	d       Dependencies
	busiest busiest
}

// NewDelays makes the service.
func NewDelays(d Dependencies) *Delays { return &Delays{d: d} }

// Routes are the API requests that the service answers.
func (x *Delays) Routes() service.Routes {
	return service.Routes{
		// Histograms of [delays](../data-plane/delays.md), since the data plane began. `counted` is
		// false with `node.delays: none`. `scale` says what buckets there are: 2 to the power of `scale` for each
		// power of two, as in an exponential histogram of OTLP. They are buckets of seconds: `index` 0 begins at 1 s.
		// `clock_synchronized` says whether anything
		// synchronizes this node's clock, null if that is not known: segments and paths compare it with others'.
		//
		// Each of `series` has a `kind`: `held` with the names `ingress` and `egress` of interfaces (`#` and the
		// index of one that is not served); `segment` and `path` with the node ids `from` and `to` (`wide`: the
		// wide ones; a path without ids has neither) and `namespace`. `other` is the series of a kind for all that
		// found no place. `count` packets are in `buckets` (those that are not empty, by `index`) and `zero`,
		// `sum_ns` is their sum. Not in them are `negative` (a time before the one that it follows: clocks
		// differ), `longer` (more than 68.7 s) and `incomplete` (paths whose whole delay is not known).
		"GET /v1/delays": x.getDelays,
	}
}

func (x *Delays) getDelays(w http.ResponseWriter, _ *http.Request) error {
	list, counted, err := x.d.Datapath.Delays()
	if err != nil {
		return err
	}
	answer := api.Delays{Counted: counted, Scale: exponential.DelayScale, Series: make([]api.DelaySeries, 0, len(list))}
	if clock, err := x.d.System.Clock(); err == nil {
		answer.ClockSynchronized = &clock.Synchronised
	}
	name := x.interfaceNames()
	for i := range list {
		answer.Series = append(answer.Series, seriesOf(&list[i], name))
	}
	service.Answer(w, http.StatusOK, answer)
	return nil
}

// interfaceNames gives served interfaces their names, and others their index.
func (x *Delays) interfaceNames() func(model.IfIndex) string {
	known := make(map[model.IfIndex]string)
	if counters, err := x.d.Datapath.Counters(); err == nil {
		for _, c := range counters {
			known[c.Index] = c.Name
		}
	}
	return func(i model.IfIndex) string {
		if name := known[i]; name != "" {
			return name
		}
		return fmt.Sprintf("#%d", i)
	}
}

func seriesOf(d *datapath.Delays, name func(model.IfIndex) string) api.DelaySeries {
	s := api.DelaySeries{
		Kind: d.Kind.String(), Other: d.Other, Count: d.Count(), Sum: d.Sum, Zero: d.Zero,
		Negative: d.Negative, Longer: d.Longer, Incomplete: d.Incomplete, Buckets: []api.DelayBucket{},
	}
	switch {
	case d.Other:
	case d.Kind == datapath.DelayHeld:
		s.Ingress, s.Egress = name(d.Ingress), name(d.Egress)
	default:
		s.Wide, s.Namespace = d.Wide, &d.Namespace
		if d.HasIDs() {
			s.From, s.To = &d.From, &d.To
		}
	}
	for _, b := range d.Histogram().Buckets {
		s.Buckets = append(s.Buckets, api.DelayBucket{Index: b.Index, Count: b.Count})
	}
	return s
}

// bounded gives a histogram classic bounds that are those of buckets, from a microsecond to 16 seconds, each
// four times the one before.
func bounded(d *metrics.Desc) *metrics.Desc {
	d.Bounds, d.Most = exponential.Powers(-20, 4, 2), config.MaxDelaySeries
	return d
}

var (
	descHeld = bounded(
		service.Metric(
			"hop_held_seconds",
			"How long this node held packets whose options ask for times, from its ingress hook to its egress hook; the wait in its "+
				"queue is not in it. Of packets without transit delay, it counts one in N (node.delays).",
			"ingress",
			"egress",
		),
	)
	descSegment = bounded(
		service.Metric(
			"segment_delay_seconds",
			"Time between the timestamps of two nodes that follow each other in traces removed here. It is as good as their clocks agree.",
			"from",
			"to",
			"namespace",
			"from_node",
			"to_node",
		),
	)
	descPath = bounded(
		service.Metric(
			"path_delay_seconds",
			"Time from the first timestamp of traces to their removal here. It is as good as both clocks agree.",
			"from",
			"namespace",
			"from_node",
		),
	)
	descNegative = service.Metric(
		"delays_negative_total",
		"Times in traces that are before those that they follow, because clocks differ, by kind of delay. They are in no histogram.",
		"kind",
	)
	descLonger      = service.Metric("delays_longer_total", "Delays of more than 68.7 s, by kind. They are in no histogram.", "kind")
	descPathUnknown = service.Metric(
		"path_delays_incomplete_total",
		"Traces removed here whose whole delay is not known: some node had no room in them, or the first one had no time.",
	)
	descDelaysOthers = service.Metric(
		"delays_other_total",
		"Delays in the series of all that found no place, or are not among the busiest (metrics.delay-series), by kind: they have no "+
			"labels of their own.",
		"kind",
	)
)

// Collect adds the histograms.
func (x *Delays) Collect(g *metrics.Gatherer) {
	s := x.d.State.Load()
	own, rest, err := x.busiest.split(func() (list []datapath.Delays, err error) {
		list, _, err = x.d.Datapath.Delays()
		return list, err
	}, int(s.Config.Metrics.DelaySeries), time.Now())
	if err != nil {
		x.d.Log.Warn("histograms of delays could not be read", "error", err)
		return
	}
	name := x.interfaceNames()
	var sums [datapath.DelayPath + 1]datapath.Delays
	var others [datapath.DelayPath + 1]uint64
	incomplete := uint64(0)
	for _, each := range [][]datapath.Delays{own, rest} {
		for i := range each {
			d := &each[i]
			sums[d.Kind].Negative += d.Negative
			sums[d.Kind].Longer += d.Longer
			incomplete += d.Incomplete
			if d.Other {
				others[d.Kind] += d.Count()
			}
			if d.Count() > 0 {
				desc, labels := labelsOf(d, name, s.Names)
				g.AddHistogram(desc, metrics.Histogram{Sum: float64(d.Sum) / 1e9, Native: d.Histogram()}, labels...)
			}
		}
	}
	for _, kind := range datapath.DelayKinds {
		g.Add(descLonger, float64(sums[kind].Longer), kind.String())
		g.Add(descNegative, float64(sums[kind].Negative), kind.String())
		g.Add(descDelaysOthers, float64(others[kind]), kind.String())
	}
	g.Add(descPathUnknown, float64(incomplete))
}

// labelsOf are the metric of a series, and its labels.
func labelsOf(d *datapath.Delays, name func(model.IfIndex) string, nodes *nodenames.Names) (*metrics.Desc, []string) {
	const other = "other"
	from, to, namespace := other, other, other
	if !d.Other {
		from, to, namespace = strconv.FormatUint(d.From, 10), strconv.FormatUint(d.To, 10), strconv.Itoa(int(d.Namespace))
		if !d.HasIDs() {
			from, to = "", ""
		}
	}
	switch d.Kind {
	case datapath.DelaySegment:
		return descSegment, []string{from, to, namespace, calledBy(nodes, d, d.From), calledBy(nodes, d, d.To)}
	case datapath.DelayPath:
		return descPath, []string{from, namespace, calledBy(nodes, d, d.From)}
	}
	if d.Other {
		return descHeld, []string{other, other}
	}
	return descHeld, []string{name(d.Ingress), name(d.Egress)}
}

// calledBy is the name of a node of a series, "" if it is not known.
func calledBy(names *nodenames.Names, d *datapath.Delays, id uint64) string {
	switch {
	case d.Other || !d.HasIDs():
		return ""
	case d.Wide:
		return names.NodeWide(ioam.NodeIDWide(id))
	}
	return names.Node(ioam.NodeID(id))
}
