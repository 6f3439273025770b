// SPDX-License-Identifier: Apache-2.0

package history

import (
	"net"
	"strconv"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/record"
)

// packets shows the latest first; a single one with its nodes.
func (p *page) packets(a *packets) error {
	if err := p.line("%s, %s", columns.Counted(len(a.Packets), "packet"), a.span()); err != nil {
		return err
	}
	t := table(
		columns.Column{Name: "TIME"},
		columns.Column{Name: "SOURCE", CutTo: 21},
		columns.Column{Name: "DESTINATION", CutTo: 21},
		columns.Column{Name: "FLOW", AlignRight: true, Rank: 5},
		columns.Column{
			Name:       "SEQUENCE",
			AlignRight: true,
			Rank:       4,
		},
		columns.Column{Name: "VERDICT", Rank: 1},
		columns.Column{Name: "REASON", Rank: 6},
		columns.Column{Name: "DELAY", AlignRight: true},
	)
	layout := a.layout("15:04:05.000")
	for i := range a.Packets {
		one := &a.Packets[i]
		t.Add(
			one.Time.UTC().Format(layout),
			end(one.From, one.SourcePort),
			end(one.To, one.DestinationPort),
			number(one.FlowID),
			number(one.Sequence),
			record.Printable(one.Verdict),
			record.Printable(one.Reason),
			optional(one.Delay),
		)
	}
	path := func(row int) string { return way(a.Packets[row].Nodes, func(n *packetNode) *node { return &n.node }) }
	return p.pathRows(t, path, func(row int) error {
		if !p.nodes && len(a.Packets) != 1 {
			return nil
		}
		return p.packetNodes(a.Packets[row].Nodes)
	})
}

func (p *page) packetNodes(nodes []packetNode) error {
	t := &columns.Table{Indent: "    ", Columns: []columns.Column{{Name: "NODE", CutTo: 12}, {Name: "IN", Rank: 4}, {Name: "OUT", Rank: 3},
		{Name: "HOPLIMIT", AlignRight: true, Rank: 5}, {Name: "TIMESTAMP"},
		{Name: "SINCE", AlignRight: true}, {Name: "HELD", AlignRight: true}, {Name: "QUEUE", AlignRight: true, Rank: 2},
		{Name: "CLOCK", AlignRight: true, Rank: 1}}}
	for i := range nodes {
		n := &nodes[i]
		at, limit, clock := "", "", ""
		if n.Time != nil {
			at = n.Time.UTC().Format("15:04:05.000000000")
		}
		if n.HopLimit != nil {
			limit = strconv.Itoa(int(*n.HopLimit))
		}
		if n.ClockError != nil {
			clock = "±" + duration(*n.ClockError)
		}
		t.Add(
			nameOf(&n.node),
			interfaceOf(n.Ingress),
			interfaceOf(n.Egress),
			limit,
			at,
			optional(n.Since),
			optional(n.Held),
			number(n.Queue),
			clock,
		)
	}
	return t.Flush(p.out, p.screen)
}

func number[N ~uint32](n *N) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*n), 10)
}

// end is an address with a port, if it has one.
func end(address string, port *uint16) string {
	address = record.Printable(address)
	if port == nil || address == "" {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(int(*port)))
}
