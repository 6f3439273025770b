// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/ioam"
)

// leastWait is the least time after which a probe is overdue: a node may wait for neighbour
// discovery, and the agents of both ends for a processor.
const leastWait = 50 * time.Millisecond

// wait is after which time a probe of the destination is overdue, by its slowest round trips.
func (d *destination) wait(timeout time.Duration) time.Duration {
	return min(max(leastWait, 2*d.slowest+20*time.Millisecond), timeout)
}

// answered takes an answer from an address that arrived at a time.
func (m *Monitor) answered(data []byte, peer netip.AddrPort, now time.Duration) {
	a, err := message.DecodeAnswer(data, m.config.Key)
	switch {
	case errors.Is(err, message.ErrMAC):
		m.counts.Forged++
		return
	case err != nil:
		m.counts.Malformed++
		return
	}
	d := m.byAddress[peer.Addr()]
	if d == nil || a.Nonce != m.nonce || peer.Port() != m.config.Port || int(a.Flow) >= len(d.flows) {
		m.counts.Foreign++
		return
	}
	if a.ID.HopLimit != hopLimit {
		m.handleWalkReply(d, a.ID, peer.Addr(), true, now)
		return
	}
	var room [maxHops]hop
	hops, overflow, ok := readHops(room[:0], a.Trace, m.config.Namespace, hopLimit, a.HopLimit)
	if !ok {
		m.counts.Malformed++
		return
	}
	f := &d.flows[a.Flow]
	missing, _ := f.overdue()
	sent, ok := f.answer(a.Number)
	if !ok {
		m.counts.Late++
		return
	}
	trip := max(now-sent, 0)
	if trip > d.slowest {
		d.slowest = trip
	} else {
		d.slowest -= (d.slowest - trip) / 256
	}
	d.everAnswered = true
	d.windows.current(now).settled++
	p := f.path
	if p == nil || !equalHops(p.hops, hops) {
		p = m.movePath(d, f, hops, overflow, now)
	}
	p.received++
	p.answered = max(p.answered, sent)
	p.trips.Observe(trip.Seconds())
	if f.place != nil && sent >= f.overdueSince {
		m.recovered(f, missing, now)
	}
}

func equalHops(a, b []hop) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// movePath puts a flow on the path that an answer shows.
func (m *Monitor) movePath(d *destination, f *flow, hops []hop, overflow bool, now time.Duration) *path {
	from, to := f.path, d.pathOf(hops, overflow, now)
	f.path = to
	to.flows++
	if from != nil {
		from.flows--
		from.left = now
		m.counts.Moves++
		d.moves.add(from, to, now)
	}
	return to
}

// icmp takes an ICMPv6 message. Those about packets of others are none of its business.
func (m *Monitor) icmp(one icmpv6.Message, now time.Duration) {
	if len(one.Body) < icmpv6.HeaderLen {
		return
	}
	kind, code := icmpv6.Type(one.Body[0]), one.Body[1]
	d, id, arrived, ok := m.quoted(one.Body[icmpv6.HeaderLen:])
	if !ok {
		return
	}
	exceeded := kind == icmpv6.TimeExceeded && code == 0
	refused := kind == icmpv6.Unreachable && code == icmpv6.PortUnreachable && one.Source == d.Address
	switch {
	case id.HopLimit != hopLimit && (exceeded || refused):
		m.handleWalkReply(d, id, one.Source, refused, now)
	case refused:
		if s := d.searchOf(int(id.Flow)); s != nil {
			s.refused = true
		}
	default: // an exceeded hop limit, of a probe with the full one, is a loop
		hop := 0
		if arrived != 0 && arrived <= id.HopLimit {
			hop = int(id.HopLimit-arrived) + 1
		}
		d.noteError(nodeError{icmpv6.ErrorName(kind, code), one.Source, hop, int(id.Flow), now})
	}
}

// noteError keeps what a node said about the probes of a flow.
func (d *destination) noteError(what nodeError) {
	d.lastError = what
	if s := d.searchOf(what.flow); s != nil {
		s.lastError = what
	}
}

// searchOf is the search for the place where the probes of a flow vanish; nil: there is none.
func (d *destination) searchOf(flow int) *search {
	p := d.flows[flow].path
	if p == nil {
		p = d.unknownPath
	}
	if p == nil {
		return nil
	}
	return p.search
}

// quoted reads a probe of this monitor that an error quotes, and the hop limit with which it
// arrived.
func (m *Monitor) quoted(ip []byte) (d *destination, id message.ID, arrived uint8, ok bool) {
	if len(ip) < ipv6.HeaderLen || ip[0]>>4 != 6 {
		return nil, id, 0, false
	}
	if d = m.byAddress[netip.AddrFrom16([16]byte(ip[24:40]))]; d == nil {
		return nil, id, 0, false
	}
	const udpLen = 8
	upper := ipv6.FindUpperLayer(ip)
	if !upper.Known || upper.Next != ioam.NextHeaderUDP || upper.Offset+udpLen > len(ip) {
		return nil, id, 0, false
	}
	id, err := message.QuotedProbe(ip[upper.Offset+udpLen:])
	if err != nil || id.Nonce != m.nonce || int(id.Flow) >= len(d.flows) {
		return nil, id, 0, false
	}
	return d, id, ip[7], true
}
