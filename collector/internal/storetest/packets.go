// SPDX-License-Identifier: Apache-2.0

// Package storetest makes packets for tests and measurements of the store: paths of 3 to 7 nodes, flows of
// which few have most packets, and delays of which few are long.
package storetest

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/collect/sender"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Nodes is how many nodes report each packet of a Sender.
const Nodes = sender.Nodes

// Sender sends postcards, as the nodes of one path would.
type Sender = sender.Sender

// NewSender makes a sender to an address.
func NewSender(to string) (*Sender, error) { return sender.New(to) }

// Packets makes packets.
type Packets struct {
	random *rand.Rand
	paths  [][]int // nodes, by path
	zipf   *rand.Zipf
	next   []uint32 // sequence numbers, by flow

	At   time.Time     // of the next packet
	Step time.Duration // to the one after
}

// NewPackets makes a source of packets over so many nodes, paths and flows. The same seed makes the same.
func NewPackets(seed uint64, nodes, paths, flows int, at time.Time, step time.Duration) *Packets {
	p := &Packets{random: rand.New(rand.NewPCG(seed, seed)), next: make([]uint32, flows), At: at, Step: step}
	p.zipf = rand.NewZipf(p.random, 1.1, 10, uint64(flows-1))
	for range paths {
		p.paths = append(p.paths, p.random.Perm(nodes)[:3+p.random.IntN(5)])
	}
	return p
}

// Source is the address of a flow's source, as senders have it.
func Source(flow int) netip.Addr { return sender.Source(flow) }

// Destination is the address of a flow's destination.
func Destination(flow int) netip.Addr { return sender.Destination(flow) }

// Exporter is the address of a node.
func Exporter(node int) netip.Addr { return sender.Address(0xffff, uint32(node)) }

// Next makes a packet. One in 500 is lost on its way.
func (p *Packets) Next() *record.Path {
	flow := int(p.zipf.Uint64())
	return p.Of(flow, p.paths[flow%len(p.paths)], p.random.IntN(500) == 0)
}

// Of makes a packet of a flow over nodes; a lost one is not reported by the last node.
func (p *Packets) Of(flow int, nodes []int, lost bool) *record.Path {
	at := p.At
	p.At = at.Add(p.Step)
	p.next[flow]++
	port, to := uint16(1024+flow%60000), uint16(443)
	r := &record.Path{
		Time: instant.Of(at), Namespace: 123, TraceType: 0xf80000, FlowID: uint32(flow + 1), Sequence: p.next[flow], Complete: !lost,
		Packet: record.Packet{
			Source:          Source(flow),
			Destination:     Destination(flow),
			NextHeader:      17,
			SourcePort:      &port,
			DestinationPort: &to,
			Length:          60 + flow%1400,
		},
		Verdict: record.PathArrived,
	}
	if lost {
		r.Reason, r.Verdict = record.PathNotSeenFurther, record.PathLost
		nodes = nodes[:len(nodes)-1]
	}
	whole := int64(0)
	for i, id := range nodes {
		held := p.delay(20_000)
		n := record.PathNode{
			Node: "node" + string(
				rune('a'+id%26),
			), Exporter: Exporter(id), Role: record.Transit, IngressIfIndex: model.IfIndex(2), EgressIfIndex: model.IfIndex(3 + id%4),
			Ingress: "eth0", Egress: "eth1",
			NodeData: record.NodeData{
				HopLimit: record.NewField(uint8(64-i), true), NodeID: record.NewField(ioam.NodeID(id), true),
				Timestamp: record.NewField(at.Add(time.Duration(whole)), true), TransitDelay: record.NewField(uint32(held), true),
			},
		}
		if i > 0 {
			since := held + p.delay(200_000)
			whole += since
			n.SincePrevious = &since
			n.Timestamp = record.NewField(at.Add(time.Duration(whole)), true)
		}
		r.Nodes = append(r.Nodes, n)
	}
	r.Nodes[0].Role = record.Encapsulating
	if !lost {
		r.Nodes[len(nodes)-1].Role = record.Decapsulating
		r.Delay = &whole
	}
	return r
}

// delay is a log-normal delay around a median.
func (p *Packets) delay(median float64) int64 {
	return int64(median * math.Exp(p.random.NormFloat64()/2))
}
