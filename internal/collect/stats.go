// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/ipfix"
)

// Stats is what a collector met. Counts never go back.
type Stats struct {
	Messages uint64 // that were decoded
	Octets   uint64 // of all that arrived, also of those that were not
	Records  uint64 // data records in them

	Postcards  uint64 // records by what they are
	Flows      uint64
	Hops       uint64 // of traces
	Options    uint64
	Others     uint64
	Faults     [NumFaults]uint64 // records that were dropped
	Unjoinable uint64            // postcards without Flow-ID, Sequence Number or role
	Traces     uint64            // put together of hops
	TracesCut  uint64            // with hops that did not come

	Problems           [ipfix.NumCauses]uint64 // of messages; records missed, for gaps
	SessionsRefused    uint64                  // messages and connections beyond the limit of sessions
	SocketDropped      uint64                  // datagrams that found no room in a socket's buffer
	Connections        uint64                  // that were accepted
	ConnectionsRefused uint64                  // beyond a limit
	HandshakesFailed   uint64                  // of TLS
	TimedOut           uint64                  // connections that stopped within a message, or sent none
	Broken             uint64                  // connections that ended within a message, or failed

	Join    join.Stats
	Waiting int // packets that wait for postcards
}

// Count is a counter by name.
type Count struct {
	Name, Meaning string
	Value         uint64
}

// Counts are all counters, in the order of a record's way. Names are those of
// JSON and, with waymark_collect_ before and _total behind, of metrics.
func (s *Stats) Counts() []Count {
	return []Count{
		{"octets", "Octets that arrived.", s.Octets},
		{"messages", "Messages that were decoded.", s.Messages},
		{"records", "Data records in messages.", s.Records},
		{"socket_dropped", "Datagrams that found no room in a socket's buffer.", s.SocketDropped},
		{"sessions_refused", "Messages and connections beyond the limit of sessions.", s.SessionsRefused},
		{"connections", "Connections that were accepted.", s.Connections},
		{"connections_refused", "Connections beyond a limit.", s.ConnectionsRefused},
		{"connections_timed_out", "Connections that stopped within a message, or sent none.", s.TimedOut},
		{"connections_broken", "Connections that ended within a message, or failed.", s.Broken},
		{"handshakes_failed", "TLS handshakes that failed.", s.HandshakesFailed},
		{"postcards", "Postcards, before those of them that are counted below.", s.Postcards},
		{"postcards_unjoinable", "Postcards without Flow-ID, Sequence Number or role, shown as they are.", s.Unjoinable},
		{"postcards_joined", "Postcards in paths.", s.Join.Joined},
		{"postcards_duplicate", "Postcards that came twice.", s.Join.Duplicates},
		{"postcards_repeated", "Postcards of a packet that came twice to a node, or of its segments.", s.Join.Repeated},
		{"postcards_late", "Postcards behind their path.", s.Join.Late},
		{"postcards_excess", "Postcards beyond what one path may have.", s.Join.TooMany},
		{"paths_shared_id", "Paths with one node id from two exporters.", s.Join.SharedIDs},
		{"flows", "Flow records.", s.Flows},
		{"hops", "Records of one hop of a trace.", s.Hops},
		{"traces", "Traces, put together of hops.", s.Traces},
		{"traces_cut", "Traces some hops of which did not come.", s.TracesCut},
		{"options", "Options records.", s.Options},
		{"other", "Records about something else.", s.Others},
	}
}

// Paths are the paths by reason.
func (s *Stats) Paths() []Count {
	var list []Count
	for r := range join.NumReasons {
		list = append(list, Count{r.String(), r.Meaning(), s.Join.Paths[r]})
	}
	return list
}

// Malformed is what was wrong with messages, by cause.
func (s *Stats) Malformed() []Count {
	var list []Count
	for c := range ipfix.NumCauses {
		list = append(list, Count{c.String(), c.Meaning(), s.Problems[c]})
	}
	return list
}

// Impossible are the records that were dropped, by cause.
func (s *Stats) Impossible() []Count {
	var list []Count
	for f := noFault + 1; f < NumFaults; f++ {
		list = append(list, Count{f.String(), f.Meaning(), s.Faults[f]})
	}
	return list
}

// Statistics is a record of a collector's counters, by name. Its JSON names are
// a contract: they are added to, never changed.
type Statistics struct {
	Kind       string            `json:"kind"` // always "statistics"
	Counts     map[string]uint64 `json:"counts"`
	Paths      map[string]uint64 `json:"paths"`      // by reason
	Malformed  map[string]uint64 `json:"malformed"`  // messages and their parts, by cause
	Impossible map[string]uint64 `json:"impossible"` // records that were dropped, by cause
	Waiting    int               `json:"waiting"`    // packets that wait for postcards

	stats Stats
}

// Text is the record for people: a line for each counter that is not 0.
func (s *Statistics) Text() string {
	var b strings.Builder
	write := func(prefix string, counts []Count) {
		for _, c := range counts {
			if c.Value > 0 {
				fmt.Fprintf(&b, "%12d  %s%s: %s\n", c.Value, prefix, c.Name, c.Meaning)
			}
		}
	}
	write("", s.stats.Counts())
	write("path ", s.stats.Paths())
	write("malformed ", s.stats.Malformed())
	write("impossible ", s.stats.Impossible())
	if b.Len() == 0 {
		return "statistics: nothing has arrived\n"
	}
	return "statistics\n" + b.String()
}

// Record makes a record of the counters.
func (s *Stats) Record() *Statistics {
	byName := func(counts []Count) map[string]uint64 {
		m := map[string]uint64{}
		for _, c := range counts {
			m[c.Name] = c.Value
		}
		return m
	}
	return &Statistics{"statistics", byName(s.Counts()), byName(s.Paths()), byName(s.Malformed()), byName(s.Impossible()), s.Waiting, *s}
}
