// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// SharedIDs warns of node ids that recently came twice in a trace. The node that removes a trace is
// the only one that sees all of its nodes.
type SharedIDs struct {
	service.Idle
	d      Dependencies
	offer  func(...record.Record)
	mu     sync.Mutex
	seen   map[nodeName]*sharedID
	logged map[nodeName]time.Time // since when; only for the goroutine that notes
}

// nodeName is an id of a node, of 24 bits or, in a trace without those, of 56.
type nodeName struct {
	id   uint64
	wide bool
}

type sharedID struct {
	total     uint64
	hopLimits [2]uint8  // of the last trace, in path order; 0 if the trace has none
	after     [2]string // the nodes before it there, by name; "" if none wrote
	recent    service.Samples
}

// mostShared bounds the ids that are remembered: outsiders may write any.
const mostShared = 64

// NewSharedIDs makes the service; the reader gives it the traces.
func NewSharedIDs(d Dependencies, records *Records) *SharedIDs {
	return &SharedIDs{d: d, offer: records.Offer, seen: make(map[nodeName]*sharedID)}
}

// nameOf is the id that a node wrote, if it wrote one that is known.
func nameOf(d ioam.NodeData) (nodeName, bool) {
	if id, ok := d.NodeID(); ok {
		return nodeName{id: uint64(id)}, id != ioam.NodeIDUnavailable
	}
	id, ok := d.NodeIDWide()
	return nodeName{uint64(id), true}, ok && id != ioam.NodeIDWideUnavailable
}

// checkTrace looks for nodes of a trace with the same ID. Copies pass nodes twice: there and back.
func (x *SharedIDs) checkTrace(t *record.Trace) {
	if t.Copy || t.Loopback {
		return
	}
	for i, one := range t.Raw {
		name, ok := nameOf(one)
		if !ok {
			continue
		}
		for j, other := range t.Raw[:i] {
			if before, ok := nameOf(other); ok && before == name {
				x.add(name, other, one, [2]string{nodeBefore(t, j), nodeBefore(t, i)})
				return // one warning for a trace
			}
		}
	}
}

// nodeBefore is the node before the one at an index of a trace, as people call it.
func nodeBefore(t *record.Trace, index int) string {
	if index == 0 || index > len(t.Nodes) {
		return ""
	}
	return t.Nodes[index-1].Label()
}

func (x *SharedIDs) add(name nodeName, first, second ioam.NodeData, after [2]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.seen[name]
	if s == nil {
		if len(x.seen) == mostShared {
			return
		}
		s = &sharedID{}
		s.recent.Add(time.Now(), 0)
		x.seen[name] = s
	}
	s.total++
	s.after = after
	s.hopLimits[0], _ = first.HopLimit()
	s.hopLimits[1], _ = second.HopLimit()
}

func (x *SharedIDs) Run(ctx context.Context) error {
	x.d.Tasks.Every(ctx, service.SamplePeriod, func() {
		x.sample()
		x.logBegin()
	})
	return nil
}

// sample notes the counters, and forgets ids that have not come twice for a minute.
func (x *SharedIDs) sample() {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for name, s := range x.seen {
		if s.recent.Add(now, s.total); s.recent.Full() && s.recent.Growth(s.total) == 0 {
			delete(x.seen, name)
		}
	}
}

func (x *SharedIDs) list() map[nodeName][]health.Warning {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[nodeName][]health.Warning)
	for name, s := range x.seen {
		if ws := health.SharedNodeID(x.label(name), s.recent.Growth(s.total), s.hopLimits, s.after); len(ws) > 0 {
			out[name] = ws
		}
	}
	return out
}

// label is an id, with the name that it has here.
func (x *SharedIDs) label(of nodeName) string {
	names := x.d.State.Load().Names
	name := names.Node(ioam.NodeID(of.id))
	if of.wide {
		name = names.NodeWide(ioam.NodeIDWide(of.id))
	}
	if name == "" {
		return fmt.Sprint(of.id)
	}
	return fmt.Sprintf("%d (%s)", of.id, name)
}

func (x *SharedIDs) Warnings(s *service.State) (ws []health.Warning) {
	if s != nil {
		ws = append(ws, ownNameElsewhere(s, x.d.NodeName())...)
	}
	for _, of := range x.list() {
		ws = append(ws, of...)
	}
	return ws
}

// ownNameElsewhere warns of a list of names that calls this node something else.
func ownNameElsewhere(s *service.State, own string) (ws []health.Warning) {
	node := s.Resolved.Node
	for i := range s.Config.Names {
		n := s.Config.Names[i].Node()
		same := n.ID != ioam.NodeIDUnavailable && n.ID == node.ID || n.IDWide != ioam.NodeIDWideUnavailable && n.IDWide == node.IDWide
		if same && n.Name != own {
			id := uint64(node.ID)
			if n.ID != node.ID || n.ID == ioam.NodeIDUnavailable {
				id = uint64(node.IDWide)
			}
			ws = append(ws, health.OwnIDOfAnother(id, own, n.Name))
		}
	}
	return ws
}

// Routes are about names.
func (x *SharedIDs) Routes() service.Routes {
	return service.Routes{
		// The names of nodes and interfaces that this node knows, by the ids that they write into packets: its
		// own, those of `names` in its file, and those that the collector of `names-from` told. A list of nodes, one
		// for each id: `node_id` or `node_id_wide`, `name`, and `interfaces`, each with `id` or `id_wide`, `name` and
		// `description` (absent if it has none).
		"GET /v1/names": func(w http.ResponseWriter, _ *http.Request) error {
			service.Answer(w, http.StatusOK, api.NodeNames(x.d.State.Load().Names))
			return nil
		},
	}
}

// logBegin logs when an id begins to come twice, because no reload does, and tells that and its end as events.
func (x *SharedIDs) logBegin() {
	now := make(map[nodeName]time.Time)
	for of, ws := range x.list() {
		if since, known := x.logged[of]; known {
			now[of] = since
			continue
		}
		now[of] = time.Now()
		service.LogWarning(x.d.Log, ws[0])
		e := x.event(record.EventNodeIDShared, of)
		e.Facts, e.Values = ws[0].Text, []record.Value{{Name: "packets", Number: float64(x.packets(of))}}
		x.offer(e)
	}
	for of, since := range x.logged {
		if _, is := now[of]; !is {
			e := x.event(record.EventNodeIDUnique, of)
			lasted := e.Time.Sub(since)
			e.Facts = fmt.Sprintf("node id %s has not come twice in a trace for a minute, after %v", x.label(of), lasted.Round(time.Second))
			e.Since, e.Values = instant.Of(since.UTC()), []record.Value{{Name: "lasted_ns", Number: float64(lasted)}}
			x.offer(e)
		}
	}
	x.logged = now
}

// packets is in how many traces an id came twice.
func (x *SharedIDs) packets(of nodeName) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.seen[of]; s != nil {
		return s.total
	}
	return 0
}

// event is one about an id.
func (x *SharedIDs) event(name string, of nodeName) *record.Event {
	subject := fmt.Sprintf("node id %d", of.id)
	if of.wide {
		subject = "wide " + subject
	}
	e := &record.Event{
		Time:     instant.Of(time.Now().UTC()),
		Node:     x.d.NodeName(),
		Name:     name,
		Severity: record.EventKindOf(name).Severity,
		Subject:  subject,
	}
	e.Labels = []record.Label{{Name: "node_id", Text: fmt.Sprint(of.id)}}
	names := x.d.State.Load().Names
	known := names.Node(ioam.NodeID(of.id))
	if of.wide {
		known = names.NodeWide(ioam.NodeIDWide(of.id))
	}
	if known != "" {
		e.Labels = append(e.Labels, record.Label{Name: "name", Text: known})
	}
	return e
}
