// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/responder"
	"github.com/waymark-net/waymark/stamp"
)

// sum adds up the blocks of a flow with a session, for messages whose counters run on.
type sum struct {
	packets, octets uint64
	next            uint64 // block
}

// sessionBlock is a block of a flow with a session, as messages of other protocols say it.
type sessionBlock struct {
	responder.Block
	back []netip.Addr // SIDs of the way of responses
}

// addSessions adds a block to the sums, and notes what may be asked about it. It returns how
// many packets the flows have had. The caller holds m.mu.
func (m *Blocks) addSessions(a *answers, how model.Measurement, counts map[string]datapath.BlockCounts) map[string]uint64 {
	a.sessions = make(map[uint16]sessionBlock)
	totals := make(map[string]uint64)
	kept := make(map[string]*sum)
	for i := range how.Flows {
		f := &how.Flows[i]
		c, ok := counts[f.Name]
		if f.Session == 0 || !ok {
			continue
		}
		s := m.sums[f.Name]
		reset := s == nil || s.next != a.block || m.length != how.Block // a gap would look like a loss
		if reset {
			s = new(sum)
		}
		s.packets, s.octets, s.next = s.packets+c.Packets, s.octets+c.Octets, a.block+1
		kept[f.Name], totals[f.Name] = s, s.packets
		a.sessions[f.Session] = sessionBlock{responder.Block{
			Number: a.block, Packets: c.Packets, Octets: c.Octets, RunningPackets: s.packets, RunningOctets: s.octets,
			Doubtful: !c.Complete || c.Late+c.Early+c.Unmarked > 0, Reset: reset, OctetsDoubtful: c.Unsized > 0,
		}, f.Return}
	}
	m.sums = kept
	return totals
}

// flowOf is the flow of a session, as responders say it. Until the first block was read, all
// sessions may have one.
func (m *Blocks) flowOf(session uint16) (flow responder.Flow, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	newest := &m.recent[0]
	b, ok := newest.sessions[session]
	flow.Length, flow.Return = newest.length, b.back
	for i := range m.recent {
		if b, known := m.recent[i].sessions[session]; ok && known && m.recent[i].length == newest.length {
			flow.Blocks = append(flow.Blocks, b.Block)
		}
	}
	return flow, ok || newest.flows == nil
}

// running is what was received of the flow of a session until the end of the last block, for
// Direct Measurement (RFC 8972 §4.5). Flows have one direction, so no packet is transmitted.
func (m *Blocks) running(_ netip.AddrPort, ssid stamp.SSID) (received, transmitted uint32, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.recent[0].sessions[uint16(ssid)]
	return uint32(b.RunningPackets), 0, ok
}
