// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
)

// parameter is one of a request.
type parameter struct {
	name, form, doc string
	usual           string   // its default, as text
	words           []string // its values, if they are a few words
}

// route is a request that the API answers.
type route struct {
	path, name, summary string
	parameters          []parameter
	answer              any // a value of its type, for the document
	serve               func(v *values) question

	stream bool           // it is a stream of events, and serveLive answers
	events map[string]any // of a stream: the types of their data, by name
}

// question is a request whose parameters were read.
type question func(ctx context.Context, q *query.Queries) (any, error)

// asking makes a question of what is asked, and of the method that answers.
func asking[A any, R any](ask A, by func(*query.Queries, context.Context, A) (R, error)) question {
	return func(ctx context.Context, q *query.Queries) (any, error) { return by(q, ctx, ask) }
}

// Parameters that several requests have.
var (
	since = parameter{
		name:  "since",
		form:  "duration",
		usual: "1h",
		doc:   "How long before until the time begins that is asked about, such as 90s, 15m, 24h or 7d. Not with from.",
	}
	from      = parameter{name: "from", form: "time", doc: "Begin of the time that is asked about, in RFC 3339, such as 2026-11-21T03:00:00Z."}
	until     = parameter{name: "until", form: "time", doc: "Its end, exclusive; without it, now."}
	namespace = parameter{name: "namespace", form: "number", doc: "IOAM Namespace-ID."}
	source    = parameter{name: "source", form: "prefix", doc: "Address or prefix of the source, such as 2001:db8:1::/48."}
	to        = parameter{name: "destination", form: "prefix", doc: "Address or prefix of the destination."}
	header    = parameter{name: "next_header", form: "number", doc: "Protocol of the upper layer, such as 6 for TCP."}
	ports     = parameter{name: "source_port", form: "number", doc: "Source port."}
	either    = parameter{name: "port", form: "number", doc: "Source or destination port."}
	port      = parameter{name: "destination_port", form: "number", doc: "Destination port."}
	condition = parameter{
		name: "where",
		form: "text",
		doc: "A condition on the fields of packets, as waymark collect --where has it, such as delay_ns > 5000000 or any(nodes, " +
			".node == 'athos'). The answer is made of the packets for which it is true. It is compared with the latest 100000 packets " +
			"that the other parameters select, or fewer if these have very many different paths; of more, the answer has cut. Not with " +
			"step or buckets.",
	}
	onLosses = parameter{
		name: "where",
		form: "text",
		doc: "A condition on the fields of blocks (kind loss) and of what edges measured (kind edge-flow), as waymark collect " +
			"--where has it, such as lost > 0 or scope == 'segment'. The answer is made of those for which it is true. It is compared " +
			"with the latest 100000 that the other parameters select; of more, the answer has cut. Not with series, step or buckets.",
	}
	edgeNamespace = parameter{name: "namespace", form: "number", doc: "Only what edges measured, of flows in this IOAM Namespace-ID."}
	edgeSource    = parameter{
		name: "source", form: "prefix",
		doc: "Only what edges measured, of flows from this address or prefix. What is known of measured flows has their names, and no addresses.",
	}
	edgeTo  = parameter{name: "destination", form: "prefix", doc: "Only what edges measured, of flows to this address or prefix."}
	segment = parameter{
		name: "segment", form: "text",
		doc: "Only packets that passed this segment: 16 hexadecimal digits, as segments and the hops of paths have.",
	}
	fromNode  = parameter{name: "from_node_id", form: "number", doc: "Only packets whose first node has this node_id."}
	toNode    = parameter{name: "to_node_id", form: "number", doc: "Only packets whose last node that reported them has this node_id."}
	flowNames = parameter{name: "flow", form: "text", doc: "Name of a measured flow; without it, all."}
)

// Parameters of what is compared, and of series.
var (
	compare = parameter{
		name: "compare",
		form: "duration",
		doc: "Also the same of a time that began so much before, such as 24h for yesterday and 7d for last week; it is as long as " +
			"the time that is asked about.",
	}
	compareFrom = parameter{name: "compare_from", form: "time", doc: "Instead: when the other time began."}
	buckets     = parameter{
		name: "buckets",
		form: "number",
		doc:  "Also a series, of this many steps, up to 2000. Steps are whole minutes; those of paths are whole seconds.",
	}
	step = parameter{name: "step", form: "duration", doc: "Instead: the length of a step, such as 1m."}
)

func limit(usual string) parameter {
	return parameter{
		name:  "limit",
		form:  "number",
		usual: usual,
		doc:   "How many items the answer has at most, up to 10000. If there are more, the answer has cut.",
	}
}

// flows are the parameters that select flows.
func flows(more ...parameter) []parameter {
	return append([]parameter{since, from, until, namespace, source, to, header, ports, port, either}, more...)
}

func orderWords() (list []string) {
	for _, o := range query.Orders {
		list = append(list, string(o))
	}
	return list
}

// routes are all requests.
var routes = []route{
	{
		path: "/v1/paths", name: "paths", summary: "Which paths packets took between prefixes, with their shares, and the delay at each node",
		parameters: flows(limit("20"), segment, fromNode, toNode, condition, compare, compareFrom, step, buckets), answer: query.Paths{},
		serve: func(v *values) question {
			in := v.times()
			ask := query.PathsQuestion{
				Range:   in,
				Flows:   v.flows(),
				Passing: v.passing(),
				Before:  v.before(in),
				Step:    v.step(in, time.Second),
				Where:   v.condition(query.OfPackets),
				Limit:   v.limit(),
			}
			return asking(ask, (*query.Queries).Paths)
		},
	},
	{
		path: "/v1/changes", name: "changes", summary: "Which pairs of addresses moved from which paths to which, when, and the delay before and after",
		parameters: flows(
			limit("100"),
			condition,
			parameter{
				name:  "window",
				form:  "duration",
				usual: "1m",
				doc:   "Time over which the shares of paths are taken. What is spread over equal paths moves only if the shares do.",
			},
			parameter{name: "moved", form: "share", usual: "0.5", doc: "The least share of packets that counts as a change, from 0 to 1."},
			parameter{name: "least", form: "number", usual: "3", doc: "How many packets a window needs: of fewer, nothing is concluded."}),
		answer: query.Changes{},
		serve: func(v *values) question {
			return asking(query.ChangesQuestion{
				Range: v.times(), Flows: v.flows(), Where: v.condition(query.OfPackets), Limit: v.limit(),
				Window: v.duration("window", time.Second, 24*time.Hour), Moved: v.share("moved"), Least: int(v.number("least", 1e6)),
			}, (*query.Queries).Changes)
		},
	},
	{
		path: "/v1/segments", name: "segments", summary: "The ways from one node to the next, the worst first, and what they were before",
		parameters: flows(
			parameter{name: "order", form: "word", usual: string(query.ByLink), words: orderWords(), doc: "By what they are sorted: link, the 99th percentile of the delay between the nodes; held, that of the time in the first node; loss; packets."},
			parameter{name: "baseline", form: "duration", doc: "Time before the one that is asked about, to compare each segment with itself."},
			condition, compare, compareFrom, step, buckets, limit("50")),
		answer: query.Segments{},
		serve: func(v *values) question {
			in := v.times()
			ask := query.SegmentsQuestion{
				Range:  in,
				Flows:  v.flows(),
				Order:  query.Order(v.word("order")),
				Before: v.before(in),
				Step:   v.step(in, time.Minute),
				Where:  v.condition(query.OfPackets),
				Limit:  v.limit(),
			}
			if v.has("baseline") {
				if ask.Baseline = v.duration("baseline", time.Minute, query.MostTime); ask.Before != nil {
					v.fail("baseline", "it is of no use with compare; remove one")
				}
			}
			return asking(ask, (*query.Queries).Segments)
		},
	},
	{
		path: "/v1/grid", name: "grid", summary: "Node by node: the delay and loss between the ends of paths",
		parameters: flows(condition, compare, compareFrom, limit("1000")), answer: query.Grid{},
		serve: func(v *values) question {
			in := v.times()
			return asking(
				query.GridQuestion{
					Range: in, Flows: v.flows(), Before: v.before(in), Where: v.condition(query.OfPackets), Limit: v.limit(),
				},
				(*query.Queries).Grid,
			)
		},
	},
	{
		path: "/v1/loss", name: "loss", summary: "The loss of measured flows, by segment and by minute, and of flows from edge to edge",
		parameters: []parameter{since, from, until, flowNames, edgeNamespace, edgeSource, edgeTo, onLosses,
			{name: "series", form: "boolean", usual: "false", doc: "Also the loss of each minute: the same as step=1m."}, compare, compareFrom, step, buckets, limit("100")},
		answer: query.Losses{},
		serve: func(v *values) question {
			in := v.times()
			ask := query.LossQuestion{
				Range:  in,
				Flow:   v.text("flow"),
				Edges:  query.Flows{Namespace: optional[uint16](v, "namespace"), Source: v.prefix("source"), Destination: v.prefix("destination")},
				Step:   v.step(in, time.Minute),
				Before: v.before(in),
				Where:  v.condition(query.OfLosses),
				Limit:  v.limit(),
			}
			if ask.Flow != "" && ask.Edges != (query.Flows{}) {
				v.fail("flow", "measured flows are asked for by name, those of edges by namespace, source and destination; remove one")
			}
			if v.truth("series") && ask.Step == 0 {
				ask.Step = time.Minute
			}
			return asking(ask, (*query.Queries).Loss)
		},
	},
	delayRoute,
	flowsRoute,
	{
		path: "/v1/loss/blocks", name: "blocks", summary: "Single blocks of measured flows by segment, the latest first; those of which the loss is not known, with the reasons",
		parameters: []parameter{
			since,
			from,
			until,
			flowNames,
			{name: "flow_id", form: "number", doc: "Number of a measured flow."},
			limit("1000"),
		},
		answer: query.Blocks{},
		serve: func(v *values) question {
			return asking(
				query.BlocksQuestion{Range: v.times(), Flow: v.text("flow"), FlowID: optional[uint32](v, "flow_id"), Limit: v.limit()},
				(*query.Queries).Blocks,
			)
		},
	},
	{
		path: "/v1/events", name: "events", summary: "What happened: events that nodes or the collector found, and warnings of the collector, the latest first",
		parameters: []parameter{since, from, until, {name: "node", form: "text", doc: "Name of the node, or of the collector's host, that found it."},
			{name: "event", form: "text", doc: "Name of an event, or code of a warning."}, limit("100")},
		answer: query.Events{},
		serve: func(v *values) question {
			return asking(
				query.EventsQuestion{Range: v.times(), Node: v.text("node"), Name: v.text("event"), Limit: v.limit()},
				(*query.Queries).Events,
			)
		},
	},
	{
		path: "/v1/packets", name: "packets", summary: "Packets with their paths, the latest first; with flow_id and sequence, one packet",
		parameters: flows(limit("100"), segment, fromNode, toNode, condition,
			parameter{name: "flow_id", form: "number", doc: "Flow-ID of the option."},
			parameter{name: "sequence", form: "number", doc: "Sequence Number of the option."},
			parameter{name: "min_delay", form: "duration", doc: "Only packets whose delay is at least this."},
			parameter{name: "incomplete", form: "boolean", usual: "false", doc: "Only packets that not every node reported."},
			parameter{name: "lost", form: "boolean", usual: "false", doc: "Only packets of which it is known that they were lost."}),
		answer: query.Packets{},
		serve: func(v *values) question {
			ask := query.PacketsQuestion{
				Range: v.times(), Flows: v.flows(), Passing: v.passing(), Limit: v.limit(), Incomplete: v.truth("incomplete"), Lost: v.truth("lost"),
				FlowID: optional[uint32](v, "flow_id"), Sequence: optional[uint32](v, "sequence"), Where: v.condition(query.OfPackets),
			}
			if v.has("min_delay") {
				ask.MinDelay = v.duration("min_delay", 0, time.Hour)
			}
			return asking(ask, (*query.Queries).Packets)
		},
	},
	{
		path: "/v1/names", name: "names", summary: "The names of nodes and interfaces, by the ids that nodes write into packets, as exporters told them",
		parameters: []parameter{{
			name:  "since",
			form:  "duration",
			usual: "24h",
			doc:   "How long before until a time begins. A role with a scope gets the names of the nodes that its packets passed in that time, without interfaces; all others get all names that are known now. Not with from.",
		}, from, until, limit("10000")},
		answer: query.Names{},
		serve: func(v *values) question {
			return asking(query.NamesQuestion{Range: v.times(), Limit: v.limit()}, (*query.Queries).NamesOf)
		},
	},
	{
		path: "/v1/health", name: "health", summary: "The state of the collector: files, disk, records lost by cause",
		answer: query.Health{},
		serve: func(*values) question {
			return func(ctx context.Context, q *query.Queries) (any, error) { return q.HealthFor(ctx), nil }
		},
	},
	sessionRoute,
}

// flows are those that the parameters select.
func (v *values) flows() query.Flows {
	return query.Flows{
		Namespace: optional[uint16](v, "namespace"), Source: v.prefix("source"), Destination: v.prefix("destination"),
		NextHeader: optional[uint8](
			v,
			"next_header",
		), SourcePort: optional[uint16](v, "source_port"), DestinationPort: optional[uint16](v, "destination_port"),
		Port: optional[uint16](v, "port"),
	}
}

// passing is where the packets passed.
func (v *values) passing() (g query.Passing) {
	if v.has("segment") {
		var id query.ID
		if err := id.UnmarshalText([]byte(v.text("segment"))); err != nil {
			v.fail("segment", err.Error()+", as segments have")
		}
		g.Segment = &id
	}
	for name, into := range map[string]**uint64{"from_node_id": &g.From, "to_node_id": &g.To} {
		if v.has(name) {
			id := v.number(name, 1<<56-1)
			*into = &id
		}
	}
	return g
}

// prefix is a prefix, or an address as one; invalid: it is not asked for.
func (v *values) prefix(name string) netip.Prefix {
	text := v.text(name)
	if text == "" {
		return netip.Prefix{}
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		v.fail(name, "want an address or a prefix, such as 2001:db8:1::/48")
	}
	return p
}
