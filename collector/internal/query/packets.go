// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// PacketsQuestion asks for packets.
type PacketsQuestion struct {
	Range
	Flows
	Passing
	FlowID, Sequence *uint32
	MinDelay         time.Duration // 0: any
	Incomplete       bool          // only those that not every node reported
	Lost             bool          // only those that are known to be lost
	Where            *Condition    // nil: none
	Limit            int
}

// Packets are the packets that were asked for, the latest first.
type Packets struct {
	Answer
	Packets []Packet `json:"packets"`
}

// Packet is one packet with its path.
type Packet struct {
	Time            instant.Time `json:"time"`
	Source          string       `json:"source"`
	Namespace       uint16       `json:"namespace"`
	FlowID          *uint32      `json:"flow_id,omitempty"`
	Sequence        *uint32      `json:"sequence,omitempty"`
	From            string       `json:"source_address,omitempty"`
	To              string       `json:"destination_address,omitempty"`
	NextHeader      uint8        `json:"next_header"`
	SourcePort      *uint16      `json:"source_port,omitempty"`
	DestinationPort *uint16      `json:"destination_port,omitempty"`
	FlowLabel       uint32       `json:"flow_label"`
	Length          uint32       `json:"length"`
	Reason          string       `json:"reason"`
	Verdict         string       `json:"verdict"`
	Delay           *int64       `json:"delay_ns,omitempty"`
	Path            ID           `json:"path"`
	Nodes           []PacketNode `json:"nodes"`
}

// PacketNode is what one node reported of a packet.
type PacketNode struct {
	Node
	Role     string        `json:"role"`
	Ingress  *Interface    `json:"ingress,omitempty"`
	Egress   *Interface    `json:"egress,omitempty"`
	HopLimit *uint8        `json:"hop_limit,omitempty"`
	Time     *instant.Time `json:"timestamp,omitempty"`
	Since    *int64        `json:"since_previous_ns,omitempty"`
	Held     *uint32       `json:"held_ns,omitempty"`
	Queue    *uint32       `json:"queue_depth,omitempty"`

	ClockError   *uint64       `json:"clock_error_ns,omitempty"`
	ClockErrorAt *instant.Time `json:"clock_error_at,omitempty"`
}

var sources = map[uint8]string{store.FromPostcards: "postcards", store.FromTrace: "trace", store.FromKernel: "kernel"}

// Packets answers. It looks at the latest files first, and returns what it has when the time is over.
func (q *Queries) Packets(ctx context.Context, ask PacketsQuestion) (*Packets, error) {
	a := &Packets{Packets: []Packet{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		known, err := namesIn(ctx, r)
		if err != nil {
			return err
		}
		files := slices.Clone(r.Files)
		if ask.FlowID != nil && ask.Sequence != nil {
			if files, err = filesWith(ctx, r, &ask); err != nil {
				return err
			}
		}
		slices.Reverse(files)
		search := newSearch(OfPackets, &a.Answer)
		for _, f := range files {
			if len(a.Packets) > 0 && f.Entry.LastBefore(ask.Until).Before(a.Packets[len(a.Packets)-1].Time.Time) && len(a.Packets) > ask.Limit {
				break
			}
			one := &store.Reading{DB: r.DB, Files: []store.File{f}}
			list, err := packetsIn(ctx, one, &ask, known, search)
			if err != nil && ctx.Err() != nil && len(a.Packets) > 0 {
				a.Cut = newCut("time", "the time for a question was over before the older files were looked at", "")
				break
			}
			if err != nil {
				return err
			}
			a.Packets = append(a.Packets, list...)
			if search.left == 0 && a.Cut != nil {
				break
			}
			slices.SortStableFunc(a.Packets, func(a, b Packet) int { return b.Time.Compare(a.Time.Time) })
			a.Packets = a.Packets[:min(len(a.Packets), ask.Limit+1)] // one more says that there are more
		}
		a.Packets = firstOf(&a.Answer, a.Packets, ask.Limit)
		return nil
	})
	return a, err
}

// filesWith are the files that have a packet that is asked for.
func filesWith(ctx context.Context, r *store.Reading, ask *PacketsQuestion) (files []store.File, err error) {
	var list []string
	var p *parameters
	for i := range r.Files {
		of := r.Files[i].Stored()
		var where string
		where, p = ask.where(&of) // it has the same parameters for all files
		query := fmt.Sprintf("(SELECT %d FROM %s p WHERE %s LIMIT 1)", i, of.Rows, where)
		list = append(list, store.Union(r.Files[i:i+1], query))
	}
	query := "SELECT * FROM (" + strings.Join(list, "\nUNION ALL\n") + ") ORDER BY ALL"
	return files, rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var i int
		err := scan(&i)
		files = append(files, r.Files[i])
		return err
	})
}

// where are the conditions of the question on the packets of a file, and their parameters.
func (ask *PacketsQuestion) where(of *store.Stored) (string, *parameters) {
	where, p := packetsOf(ask.Range, &ask.Flows)
	where += ask.Passing.where(p)
	switch {
	case ask.FlowID == nil:
	case of.Keyed:
		where += " AND p.key IN (SELECT number FROM FILE(keys) k WHERE " + of.FlowID + " = " + p.add(*ask.FlowID) + ")"
	default:
		where += " AND " + of.FlowID + " = " + p.add(*ask.FlowID)
	}
	if ask.Sequence != nil {
		where += " AND p.sequence = " + p.add(*ask.Sequence)
	}
	if ask.MinDelay > 0 {
		where += " AND p.delay_ns >= " + p.add(ask.MinDelay.Nanoseconds())
	}
	if ask.Incomplete {
		where += " AND p.reason <> 0"
	}
	if ask.Lost {
		where += " AND p.verdict = 2"
	}
	return where, p
}

// packetsIn are those of one file, one more than the limit.
func packetsIn(ctx context.Context, r *store.Reading, ask *PacketsQuestion, known *names, search *searched) (found []Packet, err error) {
	err = visitPackets(ctx, r, ask, known, func(p *Packet, _ *definition) bool {
		is, more := true, true
		if ask.Where != nil {
			is, more = ask.Where.selects(search, recordOf(p), shownFields(p))
		}
		if is {
			found = append(found, *p)
		}
		return more && len(found) <= ask.Limit
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found, addClockErrors(ctx, r, found)
}

// together is how many packets are read before their paths are.
const together = 1000

// errEnough ends a query of which enough rows were read.
var errEnough = errors.New("enough")

// visitPackets calls addPacket for each packet of one file that is asked for, the latest first, with its path: for one more
// than the limit, or than may be searched if there is a condition. addPacket is false when it has enough.
func visitPackets(
	ctx context.Context, r *store.Reading, ask *PacketsQuestion, known *names, addPacket func(*Packet, *definition) bool,
) error {
	of := r.Files[0].Stored()
	where, p := ask.where(&of)
	most := ask.Limit + 1
	if ask.Where != nil {
		most = mostSearched + 1
	}
	query := store.Union(
		r.Files,
		`SELECT p.time, p.source, p.namespace, `+of.FlowID+`, p.sequence, p.length, p.hop_limit, p.reason, p.verdict, p.delay_ns, d.path, p.timed, p.held_ns,
	`+of.Since+`, p.queue, k.source, k.destination, k.next_header, k.source_port, k.destination_port, k.flow_label
FROM (SELECT * FROM `+of.Rows+` p WHERE `+where+` ORDER BY p.time DESC LIMIT `+p.add(
			most,
		)+`) p LEFT JOIN FILE(keys) k ON p.key = k.number JOIN FILE(paths) d ON p.path = d.number ORDER BY p.time DESC`,
	)
	var found []Packet
	var raw []rawNodes
	defined := map[uint64]*definition{}
	give := func() error {
		var ids []uint64
		for i := range found {
			if id := uint64(found[i].Path); defined[id] == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			list, err := definitions(ctx, r, ids)
			if err != nil {
				return err
			}
			maps.Copy(defined, list)
		}
		for i := range found {
			d := defined[uint64(found[i].Path)]
			if d == nil {
				d = &definition{}
			}
			if found[i].Nodes = d.packet(known, found[i].Time.Time, &raw[i]); found[i].Nodes == nil {
				found[i].Nodes = []PacketNode{}
			}
			if !addPacket(&found[i], d) {
				return errEnough
			}
		}
		found, raw = found[:0], raw[:0]
		return nil
	}
	err := rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		one, nodes, err := packetOf(scan)
		if err != nil {
			return err
		}
		if found, raw = append(found, one), append(raw, nodes); len(found) < together {
			return nil
		}
		return give()
	})
	if err == nil {
		err = give()
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// rawNodes are the lists of a packet.
type rawNodes struct {
	hopLimit, timed    sql.Null[uint8]
	held, since, queue any
}

func packetOf(scan func(...any) error) (one Packet, raw rawNodes, err error) {
	var source, reason, verdict uint8
	var flow, sequence sql.Null[uint32]
	var delay sql.NullInt64
	var path uint64
	var from, to []byte
	var next sql.Null[uint8]
	var ports [2]sql.Null[uint16]
	var label sql.Null[uint32]
	err = scan(
		&one.Time.Time,
		&source,
		&one.Namespace,
		&flow,
		&sequence,
		&one.Length,
		&raw.hopLimit,
		&reason,
		&verdict,
		&delay,
		&path,
		&raw.timed,
		&raw.held,
		&raw.since,
		&raw.queue,
		&from,
		&to,
		&next,
		&ports[0],
		&ports[1],
		&label,
	)
	if err != nil {
		return one, raw, err
	}
	one.Time = instant.Of(one.Time.Time)
	one.Source, one.Reason, one.Path = sources[source], record.PathReason(reason).String(), ID(path)
	if one.Verdict = record.PathVerdict(verdict).String(); verdict == 0 {
		one.Verdict = record.PathUnknown.String()
	}
	one.FlowID, one.Sequence = valid(flow), valid(sequence)
	one.NextHeader, one.SourcePort, one.DestinationPort, one.FlowLabel = next.V, valid(ports[0]), valid(ports[1]), label.V
	if delay.Valid {
		one.Delay = &delay.Int64
	}
	if a := addressOf(from); a.IsValid() {
		one.From = a.String()
	}
	if a := addressOf(to); a.IsValid() {
		one.To = a.String()
	}
	return one, raw, nil
}

// valid is nil for NULL.
func valid[T any](v sql.Null[T]) *T {
	if !v.Valid {
		return nil
	}
	return &v.V
}

// packet are the nodes of a packet on a path. Times follow from that of the first node that has one.
func (d *definition) packet(known *names, at time.Time, raw *rawNodes) (nodes []PacketNode) {
	held, since, queue := list(raw.held), list(raw.since), list(raw.queue)
	limit := int64(raw.hopLimit.V)
	for i, h := range d.describe(known) {
		n := PacketNode{Node: h.Node, Role: h.Role, Ingress: h.Ingress, Egress: h.Egress}
		if raw.hopLimit.Valid && (i == 0 || h.Hops != nil) {
			if i > 0 {
				limit -= int64(*h.Hops)
			}
			if limit >= 0 && limit <= 255 {
				value := uint8(limit)
				n.HopLimit = &value
			}
		}
		if i < len(since) && since[i] != nil {
			ns := whole(since[i])
			at = at.Add(time.Duration(ns))
			when := instant.Of(at)
			n.Since, n.Time = &ns, &when
		} else if raw.timed.Valid && i == int(raw.timed.V) {
			when := instant.Of(at)
			n.Time = &when
		}
		if i < len(held) && held[i] != nil {
			value := uint32(whole(held[i]))
			n.Held = &value
		}
		if i < len(queue) && queue[i] != nil {
			value := uint32(whole(queue[i]))
			n.Queue = &value
		}
		nodes = append(nodes, n)
	}
	return nodes
}
