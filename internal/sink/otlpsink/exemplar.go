// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
)

// Exemplars lead from a histogram of delays to the trace of a packet that is in it. The data plane counts
// without ids of packets; but a packet whose trace was sent is in the histograms of its segments and its
// path, and its record has these delays.

// The histograms, by their names in /metrics, which docs/reference/metrics.md promises.
const (
	segmentDelays = "waymark_segment_delay_seconds"
	pathDelays    = "waymark_path_delay_seconds"
	// mostDelay is the longest delay that they have.
	mostDelay = 1 << 36 * time.Nanosecond
	// mostExemplars bounds the series with exemplars between two requests of metrics.
	mostExemplars = 1024
)

// measured is a delay that a series of a histogram has.
type measured struct {
	series string
	delay  time.Duration
	at     time.Time // of its end
}

// seriesKey is a series: its family, and its labels by name. Names of nodes say nothing more than
// their ids, and a packet may have come before its node's name.
func seriesKey(family string, labels [][2]string) string {
	key := family
	for _, l := range labels {
		if l[0] != "from_node" && l[0] != "to_node" {
			key += "\x00" + l[0] + "\x00" + l[1]
		}
	}
	return key
}

// measuredOf are the delays of a trace that was removed here: of segments, and of the path.
func measuredOf(r *record.Trace) (list []measured) {
	namespace := strconv.Itoa(int(r.Namespace))
	add := func(family string, delay time.Duration, at time.Time, labels ...[2]string) {
		if delay >= 0 && delay <= mostDelay {
			list = append(list, measured{seriesKey(family, labels), delay, at})
		}
	}
	for i := range r.Nodes {
		to := &r.Nodes[i]
		if i == 0 {
			if r.PathDelay.Valid && to.Timestamp.Valid {
				delay := time.Duration(r.PathDelay.Value)
				add(pathDelays, delay, to.Timestamp.Value.Add(delay), [2]string{"from", nodeID(to)}, [2]string{"namespace", namespace})
			}
			continue
		}
		from := &r.Nodes[i-1]
		if from.Timestamp.Valid && to.Timestamp.Valid && nodeID(from) != "" && nodeID(to) != "" {
			add(segmentDelays, to.Timestamp.Value.Sub(from.Timestamp.Value), to.Timestamp.Value,
				[2]string{"from", nodeID(from)}, [2]string{"namespace", namespace}, [2]string{"to", nodeID(to)})
		}
	}
	return list
}

// nodeID is the label of a node: its id, else its wide one.
func nodeID(n *record.NodeData) string {
	switch {
	case n.NodeID.Valid:
		return strconv.FormatUint(uint64(n.NodeID.Value), 10)
	case n.NodeIDWide.Valid:
		return strconv.FormatUint(uint64(n.NodeIDWide.Value), 10)
	}
	return ""
}

// exemplars are the last packets of series since metrics were sent.
type exemplars struct {
	mu   sync.Mutex
	last map[string]message // an Exemplar by series
}

// keep makes a path whose trace was sent the exemplar of its series.
func (e *exemplars) keep(w *way) {
	if w.trace == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range measuredOf(w.trace) {
		if _, has := e.last[d.series]; !has && len(e.last) >= mostExemplars {
			continue
		}
		if e.last == nil {
			e.last = make(map[string]message)
		}
		var m message
		m.time(2, d.at)
		m.double(3, d.delay.Seconds())
		m.octets(4, w.span(0))
		m.octets(5, w.id[:])
		e.last[d.series] = m
	}
}

// drain hands them out, once.
func (e *exemplars) drain() map[string]message {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last
	e.last = nil
	return last
}

// exemplar adds a series' Exemplar to a point, if there is one.
func (m *message) exemplar(number protowire.Number, f *metrics.Family, s *metrics.Series, list map[string]message) {
	if len(list) == 0 {
		return
	}
	if one, is := list[seriesKey(f.Name, s.Labels)]; is {
		m.inner(number, one)
	}
}
