// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loopback"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// copyResult is what became of a packet of which a copy was to be returned.
type copyResult int

// Results, in the order in which they are decided.
const (
	copySent      copyResult = iota
	copyCrowded              // more waited than are kept
	copyLate                 // the agent was away when the packet passed
	copyMalformed            // the data plane's sample cannot be read
	copyNoSource             // there is no route to the packet's source, or it is this node
	copyUnsent               // the kernel did not send it
	numCopyResults
)

var copyResults = [numCopyResults]string{"sent", "crowded", "late", "malformed", "no_source", "unsent"}

const (
	// copiesWaiting bounds the copies that wait to be sent; the data plane limits their rate.
	copiesWaiting = 64
	// latestCopy is how old a packet may be of which a copy is returned: what an agent finds
	// in the rings when it starts is of no use to a sender.
	latestCopy = time.Second
	// reopenPeriod is the least between two tries to open the socket.
	reopenPeriod = time.Second
)

// Loopbacks returns copies of packets with the Loopback flag to their sources (RFC 9322
// §4.2). The data plane chooses the packets, within its limits, and hands over their
// headers; the kernel chooses the route and the source address.
type Loopbacks struct {
	service.Idle
	d       Dependencies
	waiting chan datapath.Record
	results [numCopyResults]atomic.Uint64
	sender  service.PacketSender // nil until it could be opened; only Run uses it
	tried   time.Time
}

// NewLoopbacks makes the service, which the reader hands the packets.
func NewLoopbacks(d Dependencies) *Loopbacks {
	return &Loopbacks{d: d, waiting: make(chan datapath.Record, copiesWaiting)}
}

// enqueue queues a header from the data plane. Several goroutines call it at once.
func (l *Loopbacks) enqueue(r datapath.Record) {
	select {
	case l.waiting <- r:
	default:
		l.results[copyCrowded].Add(1)
	}
}

func (l *Loopbacks) Run(ctx context.Context) error {
	defer func() {
		if l.sender != nil {
			l.sender.Close()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-l.waiting:
			l.results[l.answer(r, time.Now())].Add(1)
		}
	}
}

// answer sends the copy of a packet.
func (l *Loopbacks) answer(r datapath.Record, now time.Time) copyResult {
	if age := now.Sub(r.Time); age > latestCopy || age < -latestCopy {
		return copyLate
	}
	if len(r.Packet) < 24 {
		return copyMalformed
	}
	to := netip.AddrFrom16([16]byte(r.Packet[8:24]))
	from, err := l.d.System.SourceTo(to)
	if err != nil {
		return copyNoSource
	}
	node := l.d.State.Load().Resolved.Node
	packet, err := loopback.Node{ID: node.ID, Returns: func(id ioam.NamespaceID, incremental bool) bool {
		return slices.ContainsFunc(node.Namespaces, func(ns model.Namespace) bool {
			return ns.ID == id && ns.Loopback && (ns.Incremental || !incremental)
		})
	}}.Copy(r.Packet, r.Header, from)
	switch {
	case errors.Is(err, loopback.ErrSource):
		return copyNoSource
	case err != nil:
		return copyMalformed
	}
	if l.sender == nil && now.Sub(l.tried) >= reopenPeriod {
		l.tried = now
		if l.sender, err = l.d.System.OpenSender(); err != nil {
			l.sender = nil
			l.d.Log.Warn("copies of packets with the Loopback flag are not returned", "error", err)
		}
	}
	if l.sender == nil || l.sender.Send(packet) != nil {
		return copyUnsent
	}
	return copySent
}

var descCopies = service.Metric(
	"loopback_copies_total",
	"Packets with the Loopback flag whose header the data plane handed over, by what became of the copy.",
	"result",
)

func (l *Loopbacks) Collect(g *metrics.Gatherer) {
	for i := range l.results {
		g.Add(descCopies, float64(l.results[i].Load()), copyResults[i])
	}
}

// Report lists the results that have happened.
func (l *Loopbacks) Report(_ *service.State, status *api.Status) {
	for i := range l.results {
		if n := l.results[i].Load(); n > 0 {
			if status.LoopbackCopies == nil {
				status.LoopbackCopies = map[string]uint64{}
			}
			status.LoopbackCopies[copyResults[i]] = n
		}
	}
}
