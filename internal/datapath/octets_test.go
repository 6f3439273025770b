// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// lane is a way by which the programs treat a header in one piece, or several traces in
// one call (decisions 0018 and 0021), with frames that take it.
type lane struct {
	name     string
	config   func(*model.NodeConfig)
	unwanted bool // records have no reader
	frames   [][]byte
}

// wanted is how many records have a reader.
func (l *lane) wanted() int {
	if l.unwanted {
		return 0
	}
	return AllRecords
}

// lanes are all of them, at ingress, and for traces at egress as well.
func lanes() []lane {
	trace := func(namespace uint16, kind ioam.TraceType, room, remaining int) []byte {
		data := make([]byte, 4*room)
		copy(data[4*remaining:], []byte{63, 0, 0, 2, 0, 202, 0xff, 0xff}) // as the ingress hook leaves it
		return traceOption(namespace, kind, remaining, data)
	}
	frame := func(next byte, upper []byte, options ...[]byte) []byte {
		header := craft.IPv6{Class: 1, Label: 5, HopLimit: 64, Source: addresses[0], Destination: addresses[1]}
		body := append(craft.Options(next, 2, bytes.Join(options, nil)), upper...)
		return craft.Ethernet(arrivalAddress, neighbourAddress, header.With(body))
	}
	// one bit less in the payload length leaves the header alone, which may be a returned copy
	datagram := craft.Datagram(4242, 9, []byte("waymark.")...)
	segment := craft.Segment(4242, 9, 0x10)
	inside := craft.IPv6{Class: 2, Label: 6, Next: craft.UDP, HopLimit: 70, Source: addresses[3], Destination: addresses[2]}
	inner := inside.With(datagram)
	inside.Class = 5 // with the outer header's ECN, which then changes nothing
	alike := inside.With(datagram)
	tunnel := func(c *model.NodeConfig) {
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: addresses[1]}}
	}
	export := exportOption(0x31, 123, 0xc0, 0x80000000, 7, 8)
	return []lane{
		{name: "trace", frames: [][]byte{
			frame(craft.UDP, datagram, trace(123, 0xc00000, 6, 4)),
			frame(craft.UDP, datagram, trace(123, 0x800000, 3, 1)), // padding at the end
			frame(craft.TCP, segment, trace(123, 0xf00000, 8, 4)),
			frame(craft.UDP, datagram, trace(123, 0x400000, 4, 0)), // no room
		}},
		{name: "trace that may be returned", config: returning, frames: [][]byte{
			frame(craft.UDP, datagram, trace(123, 0xc00000, 6, 4)),
			frame(craft.UDP, datagram, trace(123, model.LoopbackType, 6, 4)),
		}},
		{name: "trace at a node that asks for copies", config: sending, frames: [][]byte{
			frame(craft.UDP, datagram, trace(123, model.LoopbackType, 6, 4)),
			ownCopy(frame(craft.UDP, datagram, trace(123, model.LoopbackType, 6, 4))),
		}},
		{name: "several traces", frames: [][]byte{
			frame(craft.UDP, datagram, trace(123, 0xc00000, 4, 2), trace(120, 0x800000, 3, 2)),
			frame(craft.UDP, datagram, trace(123, 0x800000, 2, 1), trace(123, 0xc00000, 4, 1), trace(120, 0x300000, 4, 2)),
		}},
		{name: "Direct Export", frames: [][]byte{
			frame(craft.UDP, datagram, exportOption(0x31, 123, 0, 0x80000000)),
			frame(craft.UDP, datagram, exportOption(0x11, 123, 0x80, 0xc0000000, 7)), // padding at the end
			frame(craft.TCP, segment, export),
		}},
		{name: "tunnel with a Direct Export", config: tunnel, frames: [][]byte{
			frame(craft.IPv6InIPv6, inner, export),
			frame(craft.IPv6InIPv6, inner, exportOption(0x11, 123, 0x40, 0xc0000000, 8)),
			frame(craft.IPv6InIPv6, alike, export),
		}},
		{name: "tunnel with a trace", config: func(c *model.NodeConfig) { tunnel(c); returning(c) }, unwanted: true, frames: [][]byte{
			frame(craft.IPv6InIPv6, inner, trace(123, 0xc00000, 6, 4)),
			frame(craft.IPv6InIPv6, inner, trace(123, 0x800000, 3, 1)),
			frame(craft.IPv6InIPv6, alike, trace(123, 0xc00000, 6, 4)),
		}},
	}
}

// returning makes the node act on the flags of traces (RFC 9322).
func returning(c *model.NodeConfig) {
	c.Namespaces[0].Loopback, c.Namespaces[0].TerminateActive = true, true
	c.LoopbackLimit, c.LoopbackRate = 1, model.MaxLoopbackRate
}

// laneConfig is a node that fills, exports, removes and completes. Namespaces whose
// numbers differ from the frames' in a bit are treated in another way.
func laneConfig(change func(*model.NodeConfig)) model.NodeConfig {
	cfg := rightConfig()
	cfg.Namespaces = []model.Namespace{
		{ID: 123, Export: model.ExportEvery}, {ID: 122, Remove: true}, {ID: 121}, {ID: 120},
	}
	cfg.FlowSeed, cfg.ExportLimit, cfg.ExportRate, cfg.FlowEntries = 1, 1, model.MaxExportRate, 16384
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// nearMisses are a frame, every frame that differs from it in an octet up to the upper
// layer's end, with several values, and every shorter frame; grouped by octet.
func nearMisses(frame []byte) [][][]byte {
	groups := [][][]byte{{frame}}
	for at, octet := range frame {
		values := []byte{0, 0xff, octet - 1, octet + 1}
		for bit := range 8 {
			values = append(values, octet^1<<bit)
		}
		slices.Sort(values)
		var group [][]byte
		for _, value := range slices.Compact(values) {
			if value != octet {
				group = append(group, set(at, value)(bytes.Clone(frame)))
			}
		}
		groups = append(groups, group)
	}
	var shorter [][]byte
	for length := shortestSKB; length < len(frame); length++ {
		shorter = append(shorter, frame[:length])
	}
	return append(groups, shorter)
}

// TestEveryOctet changes every octet of the headers that have a lane. A lane that does
// not look at an octet treats the packet unlike the reference node.
func TestEveryOctet(t *testing.T) {
	onOneCPU(t)
	for _, l := range lanes() {
		cfg := laneConfig(l.config)
		p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP, hookIngressTC, hookEgressTC)
		for _, hook := range []struct {
			program *ebpf.Program
			base    bpf.ABICounter
			arrived model.IfIndex
		}{
			{p.xdp, bpf.ABICounterCOUNTER_INGRESS, 0},
			{p.tcIn, bpf.ABICounterCOUNTER_INGRESS, 0},
			{p.tcOut, bpf.ABICounterCOUNTER_EGRESS, 2},
		} {
			c := newComparison(t, cfg, p, hook.program, hook.base, l.wanted())
			l.everyOctet(t, func(group [][]byte) {
				before := p.snapshotCounters(t)
				clear(c.counted)
				for _, changed := range group {
					if _, same := c.compare(t, changed, hook.arrived); !same {
						return
					}
				}
				if got := moved(before, p.snapshotCounters(t)); !maps.Equal(got, c.counted) {
					t.Errorf("counters moved by %v, want %v", got, c.counted)
				}
			})
		}
		p.close()
	}
}

// TestEveryOctetForwarded does the same where the ingress programs forward fast, and
// complete in XDP.
func TestEveryOctetForwarded(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	routing := forward.Routing{Key: forward.RouteByDestination, MTU: forward.AnyMTU}
	for _, l := range lanes() {
		cfg := laneConfig(l.config)
		cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
		for i := range cfg.Encapsulations {
			cfg.Encapsulations[i].Interface = departureIndex
		}
		p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP, hookIngressTC)
		p.routes(t, routing, 0)
		for _, program := range []*ebpf.Program{p.xdp, p.tcIn} {
			c := newForwardingComparison(t, cfg, routing, p, program, l.wanted())
			redirected := 0
			l.everyOctet(t, func(group [][]byte) {
				before := p.snapshotCounters(t)
				clear(c.counted)
				for _, changed := range group {
					forward, same := c.compare(t, changed)
					if !same {
						return
					}
					if forward {
						redirected++
					}
				}
				c.compareCounters(t, before)
			})
			if redirected < 100*len(l.frames) {
				t.Errorf("%s, %v: only %d packets were redirected", l.name, program.Type(), redirected)
			}
		}
		p.close()
	}
}

// everyOctet gives the frames' near misses, octet by octet, to a comparison, and says
// where the first difference is.
func (l lane) everyOctet(t *testing.T, compare func(group [][]byte)) {
	t.Helper()
	for _, frame := range l.frames {
		for i, group := range nearMisses(frame) {
			if compare(group); t.Failed() {
				t.Fatalf("%s: octet %d of the frame (-1: unchanged, %d: cut off)", l.name, i-1, len(frame))
			}
		}
	}
}
