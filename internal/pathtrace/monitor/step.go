// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/stamp/udp"
)

// outgoing is a probe whose hop limit is to end on the way.
type outgoing struct {
	d       *destination
	flow    int
	limit   uint8
	port    uint16
	payload []byte
	header  []byte // instead of the socket's own; nil: that
}

// wire sends datagrams by the socket of a flow, and sets the errors of those that the kernel
// refuses.
type wire interface {
	send(flow int, list []udp.Datagram)
}

const (
	// batch is how many probes have one time of sending: the last one of them leaves some
	// microseconds later.
	batch = 8
	// sweepEvery is how often it is looked for what is overdue.
	sweepEvery = 20 * time.Millisecond
	// tick is the longest time between two looks.
	tick = 20 * time.Millisecond
)

// span is the time between two flows' turns.
func (m *Monitor) span() time.Duration { return m.config.Interval / time.Duration(m.config.Flows) }

// pause is how long the loop may sleep.
func (m *Monitor) pause() time.Duration {
	return min(tick, max(m.span(), time.Millisecond))
}

// step does what is due at a time: flows take their turns one after the other, so that the probes
// are spread over the interval. A turn that is late by more than an interval is left out.
func (m *Monitor) step(clock func() time.Duration, w wire, list []udp.Datagram) []udp.Datagram {
	now, span := clock(), m.span()
	due := int64((now - m.phase) / span)
	if behind := due - m.slot; behind > int64(m.config.Flows) {
		skipped := behind - int64(m.config.Flows)
		m.counts.Skipped += uint64(skipped) * uint64(len(m.destinations))
		m.slot += skipped
	}
	for ; m.slot <= due; m.slot++ {
		list = m.sendTurn(int(m.slot%int64(m.config.Flows)), clock, w, list)
	}
	if now = clock(); now-m.swept >= sweepEvery {
		m.swept = now
		m.sweep(now)
	}
	for _, o := range m.queue {
		one := []udp.Datagram{{
			Data: o.payload, Peer: netip.AddrPortFrom(o.d.Address, o.port), SendHopLimit: o.limit, FlowLabel: m.label(o.flow),
			SendHopByHop: o.header,
		}}
		w.send(o.flow, one)
	}
	m.queue = m.queue[:0]
	return list
}

// label is the flow label of a flow.
func (m *Monitor) label(flow int) uint32 {
	if m.plain {
		return 0
	}
	return m.labels[flow]
}

// sendTurn sends a probe of a flow to each destination.
func (m *Monitor) sendTurn(flow int, clock func() time.Duration, w wire, list []udp.Datagram) []udp.Datagram {
	for first := 0; first < len(m.destinations); first += batch {
		some := m.destinations[first:min(first+batch, len(m.destinations))]
		now := clock()
		if !m.bucket.allow(now, len(some)) {
			m.counts.Suppressed += uint64(len(some))
			continue
		}
		list = list[:0]
		for i, d := range some {
			n, gaveUp := d.flows[flow].send(now)
			d.gaveUp(flow, gaveUp, now)
			at := (first + i) * message.ProbeLen
			id := message.ID{Nonce: m.nonce, Number: n, Flow: uint16(flow), HopLimit: hopLimit}
			payload := message.AppendProbe(m.buffers[at:at:at+message.ProbeLen], id, m.config.Key)
			list = append(
				list,
				udp.Datagram{Data: payload, Peer: netip.AddrPortFrom(d.Address, m.config.Port), FlowLabel: m.label(flow), SendHopLimit: hopLimit},
			)
		}
		w.send(flow, list)
		for i, d := range some {
			m.sentProbe(d, flow, list[i].Err, now)
		}
	}
	return list
}

// sentProbe notes that a probe was sent, or why not.
func (m *Monitor) sentProbe(d *destination, flow int, err error, now time.Duration) {
	if err == nil {
		d.sent++
		m.counts.Sent++
		return
	}
	f := &d.flows[flow]
	f.probe(f.next - 1).answered = true // it is neither answered nor lost
	m.counts.SendFailed++
	if (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT)) && !m.plain { // a process has an exclusive lease of labels
		m.plain = true
		return
	}
	d.noteError(nodeError{text: err.Error(), flow: flow, at: now})
}

// gaveUp counts probes that were not answered in time.
func (d *destination) gaveUp(flow, n int, now time.Duration) {
	if n == 0 {
		return
	}
	d.lost += uint64(n)
	w := d.windows.current(now)
	w.settled += uint32(n)
	w.lost += uint32(n)
	if p := d.flows[flow].path; p != nil {
		p.lost += uint64(n)
	}
}

// sweep settles what is overdue, and goes on with searches and events.
func (m *Monitor) sweep(now time.Duration) {
	for _, d := range m.destinations {
		wait := d.wait(m.config.Timeout)
		for i := range d.flows {
			d.gaveUp(i, d.flows[i].expire(now, m.config.Timeout, wait), now)
		}
		m.suspect(d, now)
		m.survey(d, now)
		m.report(d, now)
	}
	for number, w := range m.walks {
		if now-w.sent > walkTime {
			delete(m.walks, number)
		}
	}
}
