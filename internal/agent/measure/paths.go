// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/inband"
	"github.com/waymark-net/waymark/srv6"
)

// paths are the ways of in-band packets. They are found again from time to time, because
// the address from which the kernel sends may change.
type paths struct {
	system  System
	from    netip.Addr             // the configured source
	flows   map[netip.Addr]counted // by their sources
	sources map[netip.Addr]source
}

// counted says which packets with a source nodes may count in a flow.
type counted struct{ inline bool }

// source is the source of packets to a first segment.
type source struct {
	netip.Addr
	err error
}

func newPaths(system System, how model.Measurement, flows []model.MeasuredFlow) *paths {
	p := &paths{system: system, from: how.ProbeFrom, flows: make(map[netip.Addr]counted), sources: make(map[netip.Addr]source)}
	for i := range flows {
		f := &flows[i]
		p.flows[f.Source] = counted{p.flows[f.Source].inline || f.Path.Mode == srv6.ModeInline}
	}
	return p
}

// to is the way of a flow's in-band packets to one of its points; nil: as they are routed.
func (p *paths) to(f *model.MeasuredFlow, point int) (*inband.Path, error) {
	visited, known := f.SegmentsTo(point)
	// The last SID ends tunnels, and would drop a datagram that is in none (RFC 8986 §4.6):
	// the point's address takes its place. So it does on the way to other points, which are at
	// the ends of no tunnel.
	way := inband.Path{Segments: f.Path.Segments[:visited], Mode: srv6.ModeInline}
	encapsulated := f.Probes == model.ProbesInBandEncap && point == len(f.Points)-1
	if encapsulated {
		way.Segments, way.Mode = f.Path.Segments, f.Path.Mode
	}
	if len(way.Segments) == 0 || !known {
		return nil, nil
	}
	if f.FlowLabel != nil {
		way.Label = *f.FlowLabel
	}
	from := p.sourceTo(way.Segments[0])
	if from.err != nil {
		return nil, problem.Wrap(from.err, "add a route to the first SID")
	}
	// Encapsulated packets differ from those of flows in their source only, and so do
	// others from those of mode inline, which are of a flow whatever their destination.
	if flow, ok := p.flows[from.Addr]; ok && (encapsulated || flow.inline) {
		return nil, problem.New(
			fmt.Sprintf("they would leave with %v, the source of a flow, in which they would count", from.Addr),
			"set measurement.probe-source to another address of this node",
		)
	}
	way.Source = from.Addr
	return &way, nil
}

// sourceTo is the source of packets to a segment.
func (p *paths) sourceTo(first netip.Addr) source {
	if p.from.IsValid() {
		return source{Addr: p.from}
	}
	s, ok := p.sources[first]
	if !ok {
		s.Addr, s.err = p.system.SourceTo(first)
		p.sources[first] = s
	}
	return s
}

// complaints are why in-band packets are not sent as they should be, by flow. Each is logged
// once until it is another one.
type complaints struct {
	mu     sync.Mutex
	causes map[string]error
}

// recordProblem records what is wrong with a flow; nil: nothing.
func (c *complaints) recordProblem(log *slog.Logger, flow string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.causes, flow)
		return
	}
	if c.causes == nil {
		c.causes = make(map[string]error)
	}
	if !sameText(err, c.causes[flow]) {
		c.causes[flow] = err
		log.Warn("test packets of a flow are not sent through its segments", "flow", flow, "error", err)
	}
}

// clear forgets all, when the flows are others.
func (c *complaints) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.causes)
}

// warnings are one for each cause.
func (c *complaints) warnings() (ws []health.Warning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	flows := make(map[problem.Problem][]string)
	for flow, err := range c.causes {
		text, cure := problem.Of(err)
		cause := problem.Problem{Text: text, Cure: cure}
		flows[cause] = append(flows[cause], flow)
	}
	for _, cause := range slices.SortedFunc(maps.Keys(flows),
		func(a, b problem.Problem) int { return strings.Compare(a.Error(), b.Error()) }) {
		names := flows[cause]
		slices.Sort(names)
		text := fmt.Sprintf("test packets of flow %q are not sent through its segments", names[0])
		if len(names) > 1 {
			text = fmt.Sprintf("test packets of %d flows, such as %q, are not sent through their segments", len(names), names[0])
		}
		ws = append(ws, health.New(health.ProbesNotInBand, "", text+": "+cause.Text, cause.Cure))
	}
	return ws
}
