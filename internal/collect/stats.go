// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// Received counts what happened to sessions and sockets.
type Received struct {
	SessionsRefused    uint64 // messages and connections beyond the limit of sessions
	SocketDropped      uint64 // datagrams that found no room in a socket's buffer
	Connections        uint64 // that were accepted
	ConnectionsRefused uint64 // beyond a limit
	HandshakesFailed   uint64 // of TLS
	TimedOut           uint64 // connections that stopped within a message, or sent none
	Broken             uint64 // connections that ended within a message, or failed
}

// Stats are a collector's counters. They never go back.
type Stats struct {
	Received

	Messages uint64 // that were decoded
	Octets   uint64 // of all messages, including those that were not decoded
	Records  uint64 // data records in them

	Data    [record.NumDataKinds]uint64 // those about IOAM, by kind
	Options uint64
	// NamesRefused are options records with a name beyond the limits.
	NamesRefused uint64
	Others       uint64
	Faults       [record.NumFaults]uint64 // records that were dropped
	Unjoinable   uint64                   // postcards without Flow-ID, Sequence Number or role
	Traces       uint64                   // joined from hops
	TracesCut    uint64                   // with missing hops

	Problems [ipfix.NumCauses]uint64 // of messages; for gaps, missed records

	Compared  comparison
	Assembled loss.Counters

	Beyond [len(thresholds)]int // flows that are beyond each threshold

	PathsLost    uint64 // by verdict
	PathsUnknown uint64
	Pairs        []record.Pair

	Join    join.Stats
	Waiting int // packets that wait for postcards
}

// Counts are all counters, in the order in which a record passes them. Names are those
// of JSON and, with the prefix waymark_collect_ and the suffix _total, of metrics.
func (s *Stats) Counts() []record.Count {
	list := []record.Count{
		count("octets", "Octets that arrived.", s.Octets),
		count("messages", "Messages that were decoded.", s.Messages),
		count("records", "Data records in messages.", s.Records),
		count("socket_dropped", "Datagrams for which a socket's buffer had no room.", s.SocketDropped),
		count("sessions_refused", "Messages and connections beyond the limit of sessions.", s.SessionsRefused),
		count("connections", "Connections that were accepted.", s.Connections),
		count("connections_refused", "Connections beyond a limit.", s.ConnectionsRefused),
		count("connections_timed_out", "Connections that stopped within a message, or sent none.", s.TimedOut),
		count("connections_broken", "Connections that ended within a message, or failed.", s.Broken),
		count("handshakes_failed", "TLS handshakes that failed.", s.HandshakesFailed),
	}
	for kind, n := range s.Data {
		name, meaning := record.DataKind(kind).Counter()
		list = append(append(list, count(name, meaning, n)), s.joinCounts(record.DataKind(kind))...)
	}
	return append(list,
		count("options", "Options records.", s.Options),
		count("names_refused", "Options records with the name of a node or interface beyond the limits, which has no name.", s.NamesRefused),
		count("other", "Records about something else.", s.Others),
	)
}

// joinCounts counts what became of the records of a kind that are joined or compared.
func (s *Stats) joinCounts(kind record.DataKind) []record.Count {
	switch kind {
	case record.DataPostcard:
		return []record.Count{
			count("postcards_unjoinable", "Postcards without Flow-ID, Sequence Number or role, shown as they are.", s.Unjoinable),
			count("postcards_joined", "Postcards in paths.", s.Join.Joined),
			count("postcards_duplicate", "Postcards that came twice.", s.Join.Duplicates),
			count(
				"postcards_repeated",
				"Postcards that a node had sent of the same packet already, because it arrived twice or was segmented.",
				s.Join.Repeated,
			),
			count("postcards_late", "Postcards that came after their path was printed.", s.Join.Late),
			count("postcards_excess", "Postcards beyond the limit of one path.", s.Join.TooMany),
			count("paths_shared_id", "Paths with one node id from two exporters.", s.Join.SharedIDs),
			count("paths_lost", "Paths of packets that are known to be lost.", s.PathsLost),
			count("paths_unknown", "Paths of packets of which it is not known whether they are lost.", s.PathsUnknown),
		}
	case record.DataBlock:
		a, c := &s.Assembled, &s.Compared
		return []record.Count{
			count("blocks_repeated", "Those that came twice.", a.Readings[loss.Repeated]),
			count(
				"blocks_contradicting",
				"Those that differ from another one of the same point: the block is uncertain.",
				a.Readings[loss.Contradicted],
			),
			count("blocks_late", "Those that came after the result of their block.", a.Readings[loss.Past]+c.past),
			count("blocks_early", "Records of blocks of measured flows that have not ended by the collector's clock.", a.Readings[loss.Future]+c.future),
			count("compared", "Blocks of flows whose loss was computed from the records of their points.", sum(a.Results[:])),
			count("compared_uncertain", "Those of them that are uncertain or without data.", a.Results[loss.Uncertain]+a.Results[loss.NoData]),
			count(
				"compared_duplicated",
				"Those of which more packets came to a point than were sent, so that it is not known how many were lost.",
				a.Results[loss.Duplicated],
			),
			count("compared_skipped", "Blocks without a result, because the clock leapt.", a.Skipped),
			count("flows_evicted", "Measured flows that were given up for newer ones.", c.evicted),
			count("flows_ended", "Measured flows of which no point reported any more.", c.ended),
		}
	case record.DataHop:
		return []record.Count{
			count("traces", "Traces, joined from hops.", s.Traces),
			count("traces_cut", "Traces with missing hops.", s.TracesCut),
		}
	}
	return nil
}

func sum(list []uint64) (n uint64) {
	for _, each := range list {
		n += each
	}
	return n
}

func count(name, meaning string, value uint64) record.Count {
	return record.Count{Name: name, Meaning: meaning, Value: value}
}

// Paths are the paths by reason.
func (s *Stats) Paths() []record.Count { return byCause(s.Join.Paths[:], record.PathReason(0)) }

// Malformed counts the errors in messages, by cause.
func (s *Stats) Malformed() []record.Count { return byCause(s.Problems[:], ipfix.Cause(0)) }

// Impossible are the records that were dropped, by cause.
func (s *Stats) Impossible() []record.Count { return byCause(s.Faults[:], record.NoFault+1) }

// cause is a reason or cause by which something is counted.
type cause interface {
	~int | ~uint8
	String() string
	Meaning() string
}

// byCause names the counters of a list that has one for each cause, from first on.
func byCause[C cause](values []uint64, first C) []record.Count {
	var list []record.Count
	for c := first; int(c) < len(values); c++ {
		list = append(list, count(c.String(), c.Meaning(), values[c]))
	}
	return list
}

// Record makes a record of the counters.
func (s *Stats) Record() *record.Statistics {
	return &record.Statistics{
		Counts:     s.Counts(),
		Paths:      s.Paths(),
		Malformed:  s.Malformed(),
		Impossible: s.Impossible(),
		Waiting:    s.Waiting,
		Pairs:      s.Pairs,
	}
}
