// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// FlowsQuestion asks for what nodes reported of flows: aggregated flows, and single postcards that no path was made of.
type FlowsQuestion struct {
	Range
	Flows
	FlowID *uint32       // of the option; nil: all
	Node   string        // that reported; "": all
	Order  FlowOrder     // the greatest first
	Step   time.Duration // of series; 0: none
	Where  *Condition    // on records; nil: none
	Limit  int
}

// FlowOrder is by what flows are sorted.
type FlowOrder string

// FlowOrders are all of them, the usual one first.
var FlowOrders = []FlowOrder{FlowsByPackets, FlowsByBytes, FlowsByMissing}

// Orders of flows.
const (
	FlowsByPackets FlowOrder = "packets"
	FlowsByBytes   FlowOrder = "bytes"
	FlowsByMissing FlowOrder = "missing"
)

// AggregatedFlows are what nodes reported of flows.
type AggregatedFlows struct {
	Answer
	Flows []AggregatedFlow `json:"flows"`
}

// AggregatedFlow is what one node reported of one flow.
type AggregatedFlow struct {
	Node            string  `json:"node,omitempty"`
	Role            string  `json:"role"`
	Namespace       uint16  `json:"namespace"`
	FlowID          *uint32 `json:"flow_id,omitempty"`
	From            string  `json:"source_address,omitempty"`
	To              string  `json:"destination_address,omitempty"`
	NextHeader      uint8   `json:"next_header"`
	SourcePort      *uint16 `json:"source_port,omitempty"`
	DestinationPort *uint16 `json:"destination_port,omitempty"`
	FlowLabel       uint32  `json:"flow_label"`
	FlowSums
	Series []FlowPoint `json:"series,omitempty"`
}

// FlowSums are those of records about a flow.
type FlowSums struct {
	Records   uint64       `json:"records"`
	Postcards uint64       `json:"postcards"`
	Packets   uint64       `json:"packets"`
	Bytes     uint64       `json:"bytes"`
	First     instant.Time `json:"first"`
	Last      instant.Time `json:"last"`
	Held      *HeldFor     `json:"held,omitempty"`
	Missing   *uint64      `json:"missing,omitempty"`
	Unknown   uint64       `json:"missing_unknown"`
	Late      *uint64      `json:"late,omitempty"`
}

// HeldFor sums up how long a node held packets, in nanoseconds.
type HeldFor struct {
	Count uint64 `json:"count"`
	Min   int64  `json:"min_ns"`
	Mean  int64  `json:"mean_ns"`
	Max   int64  `json:"max_ns"`
}

// FlowPoint is what a node reported of a flow in one step.
type FlowPoint struct {
	Time instant.Time `json:"time"`
	FlowSums
}

// flowRecordKey says what a record is about. Numbers that it lacks are -1.
type flowRecordKey struct {
	node, role                  string
	namespace, flowID           int64
	source, destination         string
	nextHeader                  int64
	sourcePort, destinationPort int64
	label                       int64
}

// flowKeys are the columns of a flowRecordKey, in its order.
const flowKeys = "node, role, namespace, flow_id, source, destination, next_header, source_port, destination_port, flow_label"

// AggregatedFlows answers.
func (q *Queries) AggregatedFlows(ctx context.Context, ask FlowsQuestion) (*AggregatedFlows, error) {
	a := &AggregatedFlows{Flows: []AggregatedFlow{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		if ask.Where != nil {
			return flowsWhere(ctx, r, &ask, a)
		}
		if err := flowRecords(ctx, r, &ask, a); err != nil || ask.Step == 0 || len(a.Flows) == 0 {
			return err
		}
		a.Step = ask.Step.Nanoseconds()
		return flowSeries(ctx, r, &ask, a)
	})
	return a, err
}

// timed is the condition that a column has a time of a range. FILE(table) has the column.
func (r Range) timed(column string, p *parameters) string {
	return fmt.Sprintf("%s >= %s::TIMESTAMP_NS AND %s < %s::TIMESTAMP_NS", column, p.add(r.From.UTC()), column, p.add(r.Until.UTC()))
}

// where is the condition on the rows of a table of flows or postcards.
func (f *FlowsQuestion) where(table string, p *parameters) string {
	conditions := []string{f.timed("time", p)}
	for _, c := range []struct {
		column string
		prefix netip.Prefix
	}{{"packet_source", f.Source}, {"packet_destination", f.Destination}} {
		if c.prefix.IsValid() { // each address is read once
			low, high := store.Bounds(c.prefix)
			conditions = append(conditions, fmt.Sprintf("%s IN (SELECT a FROM (SELECT DISTINCT %s AS a FROM FILE(%s)) WHERE %s BETWEEN %s AND %s)",
				c.column, c.column, table, store.OctetsOf("a"), p.add(low), p.add(high)))
		}
	}
	equals := func(column string, value any) { conditions = append(conditions, column+" = "+p.add(value)) }
	if f.Namespace != nil {
		equals("namespace", *f.Namespace)
	}
	if f.NextHeader != nil {
		equals("packet_next_header", *f.NextHeader)
	}
	if f.SourcePort != nil {
		equals("packet_source_port", *f.SourcePort)
	}
	if f.DestinationPort != nil {
		equals("packet_destination_port", *f.DestinationPort)
	}
	if f.Port != nil {
		port := p.add(*f.Port)
		conditions = append(conditions, "(packet_source_port = "+port+" OR packet_destination_port = "+port+")")
	}
	if f.FlowID != nil {
		equals("flow_id", *f.FlowID)
	}
	if f.Node != "" {
		equals("node", f.Node)
	}
	return strings.Join(conditions, " AND ")
}

// keyed are the columns of a flowRecordKey, of which none is NULL.
const keyed = `coalesce(node, '') AS node, coalesce(role, '') AS role, coalesce(namespace, 0) AS namespace, coalesce(flow_id, -1) AS flow_id,
	coalesce(packet_source, '') AS source, coalesce(packet_destination, '') AS destination, coalesce(packet_next_header, 0) AS next_header,
	coalesce(packet_source_port, -1) AS source_port, coalesce(packet_destination_port, -1) AS destination_port,
	coalesce(packet_flow_label, 0) AS flow_label`

// rows is a query of the records that are asked for. card: the row is a postcard.
func (f *FlowsQuestion) rows(r *store.Reading, p *parameters) string {
	return store.Union(r.Files, "SELECT "+keyed+`, false AS card, time, coalesce(first, time) AS first, coalesce(last, time) AS last, packets, bytes,
	transit_delay_ns_min AS least, transit_delay_ns_max AS most, transit_delay_ns_sum AS total, transit_delay_ns_count AS timed,
	sequence_gaps, reordered FROM FILE(flow) WHERE `+f.where("flow", p)) + "\nUNION ALL " +
		store.Union(r.Files, "SELECT "+keyed+`, true, time, time, time, NULL, NULL,
	data_transit_delay_ns, data_transit_delay_ns, data_transit_delay_ns, CASE WHEN data_transit_delay_ns IS NOT NULL THEN 1 END,
	NULL, NULL FROM FILE(postcard) WHERE `+f.where("postcard", p))
}

// capped is a sum of numbers from the network, at most the greatest one that an answer has; NULL stays so.
func capped(sum string) string {
	return "(CASE WHEN " + sum + " > 9223372036854775807 THEN 9223372036854775807 ELSE " + sum + " END)::BIGINT"
}

// flowSums are the columns of FlowSums. How long packets were held is of flows, and of postcards where no flow says it:
// with export: sample, both are about the same packets.
var flowSums = `count(*) FILTER (NOT card) AS records, count(*) FILTER (card) AS postcards,
	` + capped("coalesce(sum(packets), 0)") + ` AS packets, ` + capped("coalesce(sum(bytes), 0)") + ` AS bytes, min(first) AS first, max(last) AS last,
	min(least) FILTER (NOT card), max(most) FILTER (NOT card), sum(total::DOUBLE) FILTER (NOT card), ` + capped("sum(timed) FILTER (NOT card)") + `,
	min(least) FILTER (card), max(most) FILTER (card), sum(total::DOUBLE) FILTER (card), count(timed) FILTER (card),
	` + capped("sum(sequence_gaps)") + ` AS missing, count(*) FILTER (reordered IS NOT NULL AND sequence_gaps IS NULL), ` + capped("sum(reordered)")

// flowOrders are the expressions by which flows are sorted.
var flowOrders = map[FlowOrder]string{
	FlowsByPackets: "packets DESC, postcards DESC, ",
	FlowsByBytes:   "bytes DESC, packets DESC, postcards DESC, ",
	FlowsByMissing: "missing DESC NULLS LAST, packets DESC, postcards DESC, ",
}

func flowRecords(ctx context.Context, r *store.Reading, ask *FlowsQuestion, a *AggregatedFlows) error {
	p := &parameters{}
	query := "WITH part AS (" + ask.rows(r, p) + ") SELECT " + flowKeys + ", " + flowSums + " FROM part GROUP BY " + flowKeys +
		" ORDER BY " + flowOrders[ask.Order] + flowKeys + " LIMIT " + p.add(ask.Limit+1)
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		key, sums, err := flowRow(scan)
		if err != nil {
			return err
		}
		if len(a.Flows) == ask.Limit {
			a.Cut = cutAt(ask.Limit)
			return nil
		}
		a.Flows = append(a.Flows, key.flow(sums))
		return nil
	})
}

// flowSeries adds the steps of the flows that are listed.
func flowSeries(ctx context.Context, r *store.Reading, ask *FlowsQuestion, a *AggregatedFlows) error {
	place := map[flowRecordKey]int{}
	for i := range a.Flows {
		place[a.Flows[i].key()] = i
	}
	p := &parameters{}
	query := "WITH part AS (" + ask.rows(r, p) + "), listed AS (SELECT " + flowKeys + ", " + flowSums + " FROM part GROUP BY " + flowKeys +
		" ORDER BY " + flowOrders[ask.Order] + flowKeys + " LIMIT " + p.add(ask.Limit) + ") SELECT epoch_ns(part.time) // " +
		p.add(ask.Step.Nanoseconds()) + "::BIGINT AS w, " + flowKeys + ", " + flowSums + " FROM part SEMI JOIN listed USING (" + flowKeys +
		") GROUP BY w, " + flowKeys + " ORDER BY w, " + flowKeys + " LIMIT " + p.add(mostPoints+1)
	points := 0
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var number int64
		key, sums, err := flowRow(scan, &number)
		if err != nil {
			return err
		}
		if points++; points > mostPoints {
			a.Cut = cutAt(mostPoints)
			return nil
		}
		if i, ok := place[key]; ok { // records may have come between the two queries
			a.Flows[i].Series = append(a.Flows[i].Series, FlowPoint{beginOf(number, ask.Step), sums})
		}
		return nil
	})
}

// flowRow reads the sums of a flow; before are columns before its key.
func flowRow(scan func(...any) error, before ...any) (k flowRecordKey, s FlowSums, err error) {
	var first, last sql.NullTime
	var held [2]heldSum
	var missing, late sql.NullInt64
	into := append(before, &k.node, &k.role, &k.namespace, &k.flowID, &k.source, &k.destination, &k.nextHeader, &k.sourcePort,
		&k.destinationPort, &k.label, &s.Records, &s.Postcards, &s.Packets, &s.Bytes, &first, &last)
	for i := range held {
		h := &held[i]
		into = append(into, &h.least, &h.most, &h.total, &h.count)
	}
	if err = scan(append(into, &missing, &s.Unknown, &late)...); err != nil {
		return k, s, err
	}
	s.First, s.Last = instant.Of(first.Time), instant.Of(last.Time)
	if s.Held = held[0].held(); s.Held == nil {
		s.Held = held[1].held()
	}
	s.Missing, s.Late = unsigned(missing), unsigned(late)
	return k, s, nil
}

// heldSum is how long packets were held, as the database has it.
type heldSum struct {
	least, most, count sql.NullInt64
	total              sql.NullFloat64
}

func (h *heldSum) held() *HeldFor {
	if h.count.Int64 <= 0 {
		return nil
	}
	mean := int64(h.total.Float64 / float64(h.count.Int64))
	return &HeldFor{Count: uint64(h.count.Int64), Min: h.least.Int64, Mean: mean, Max: h.most.Int64}
}

func unsigned(n sql.NullInt64) *uint64 {
	if !n.Valid {
		return nil
	}
	value := uint64(max(n.Int64, 0))
	return &value
}

// flow is what a key says, with sums.
func (k *flowRecordKey) flow(s FlowSums) AggregatedFlow {
	return AggregatedFlow{
		Node: k.node, Role: k.role, Namespace: uint16(k.namespace), FlowID: present[uint32](k.flowID), From: k.source, To: k.destination,
		NextHeader: uint8(k.nextHeader), SourcePort: present[uint16](k.sourcePort), DestinationPort: present[uint16](k.destinationPort),
		FlowLabel: uint32(k.label), FlowSums: s,
	}
}

// key is the reverse.
func (f *AggregatedFlow) key() flowRecordKey {
	return flowRecordKey{
		node: f.Node, role: f.Role, namespace: int64(f.Namespace), flowID: absent(f.FlowID), source: f.From, destination: f.To,
		nextHeader: int64(f.NextHeader), sourcePort: absent(f.SourcePort), destinationPort: absent(f.DestinationPort), label: int64(f.FlowLabel),
	}
}

// present is a number of a key; nil: it is absent.
func present[N uint16 | uint32](n int64) *N {
	if n < 0 {
		return nil
	}
	value := N(n)
	return &value
}

func absent[N uint16 | uint32](n *N) int64 {
	if n == nil {
		return -1
	}
	return int64(*n)
}
