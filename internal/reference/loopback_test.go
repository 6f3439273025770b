// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// Traces of type 0x800000 with room for three nodes, of which the first is node 2.
const (
	askingHeader = "3b030100 31160000 007b0a02 80000000 00000000 00000000 40000002 01020000"
	copyHeader   = "3b030100 31160000 007b0801 80000000 00000000 3f000003 40000002 01020000"

	// The same with incremental traces.
	askingGrowth = "3b020100 310e0001 007b0a02 80000000 40000002 01020000"
	grownCopy    = "3b030104 00000000 31120001 007b0801 80000000 3f000003 40000002 01020000"
)

// twoProbes has the Active flag in traces of two namespaces, with room for a node each.
const twoProbes = "3b040100 310e0000 007b0901 80000000 00000000 310e0000 00c80901 80000000 00000000 01020000"

func TestLoopbackAndActive(t *testing.T) {
	for _, test := range []struct {
		name, header string
		config       func(*model.NodeConfig)
		payload      []byte
		iface        model.IfIndex
		outcome      model.Outcome
		drop, copied bool
		record       string // the recorded header; not compared without one
	}{
		{name: "a copy is due", header: askingHeader, config: returning, outcome: model.OutcomeTraceFilled, copied: true},
		{name: "not allowed", header: askingHeader, outcome: model.OutcomeTraceFilled},
		{name: "at the edge", header: askingHeader, config: returning, iface: ifEdge, outcome: model.OutcomeBoundaryDropped, drop: true},
		{name: "removed with a copy", header: askingHeader, config: func(c *model.NodeConfig) { returning(c); c.Namespaces[0].Remove = true }, outcome: model.OutcomeInlineRemoved, copied: true},
		{name: "no room", header: "3b030100 31160000 007b0a00 80000000 00000000 00000000 40000002 01020000", config: returning, outcome: model.OutcomeTraceOverflow},
		{name: "another type", header: "3b030100 31160000 007b0a02 40000000 00000000 00000000 40000002 01020000", config: returning, outcome: model.OutcomeTraceFilled},
		{name: "an own copy", header: copyHeader, config: asking, outcome: model.OutcomeLoopbackReceived, drop: true},
		{name: "an own copy where none are asked for", header: copyHeader, outcome: model.OutcomeTraceFilled},
		{name: "an own packet", header: copyHeader, config: asking, payload: []byte{1}, outcome: model.OutcomeTraceFilled},
		{name: "incremental, a copy is due", header: askingGrowth, config: func(c *model.NodeConfig) { returning(c); c.Namespaces[0].Incremental = true }, outcome: model.OutcomeIncrementalTrace, copied: true},
		{name: "incremental, may not grow", header: askingGrowth, config: returning, outcome: model.OutcomeOptionUnsupported},
		{name: "incremental, no room", header: "3b020100 310e0001 007b0a00 80000000 40000002 01020000",
			config: func(c *model.NodeConfig) { returning(c); c.Namespaces[0].Incremental = true }, outcome: model.OutcomeIncrementalTrace},
		{name: "an own copy with an incremental trace", header: grownCopy, config: asking, outcome: model.OutcomeLoopbackReceived, drop: true},
		{name: "an incremental trace without data is no copy", header: "3b010100 310a0001 007b0801 80000000", config: asking, outcome: model.OutcomeOptionUnsupported},
		{name: "another node's copy", header: "3b030100 31160000 007b0801 80000000 00000000 3f000002 40000003 01020000", config: asking, outcome: model.OutcomeTraceFilled},
		{name: "a probe ends", header: "3b030100 31160000 007b0902 80000000 00000000 00000000 40000009 01020000", config: ending, outcome: model.OutcomeActiveTerminated, drop: true},
		{name: "a probe goes on", header: "3b030100 31160000 007b0902 80000000 00000000 00000000 40000009 01020000",
			config: func(c *model.NodeConfig) { ending(c); c.Namespaces[0].Remove = false }, outcome: model.OutcomeTraceFilled},
		{name: "a probe with another option", header: "3b040100 31160000 007b0902 80000000 00000000 00000000 40000009 1e06 000000000000 01020000", config: ending, outcome: model.OutcomeActiveTerminated, drop: true},
		{name: "a probe with a trace that stays", header: twoProbes, config: ending, outcome: model.OutcomeActiveTerminated, drop: true,
			record: "3b040100 310e0000 007b0900 80000000 3f000002 310e0000 00c80900 80000000 3f000002 01020000"},
		{name: "a probe of a trace that stays", header: twoProbes, config: func(c *model.NodeConfig) {
			c.Namespaces[0].Remove = true
			for i := range c.Namespaces {
				c.Namespaces[i].TerminateActive = !c.Namespaces[i].Remove
			}
		}, outcome: model.OutcomeOptionsRemoved, record: "3b040100 310e0000 007b0900 80000000 3f000002 010e0000 00c80900 80000000 3f000002 01020000"},
		{name: "a probe that is followed", header: "00030100 31160000 007b0902 80000000 00000000 00000000 40000009 01020000", config: ending, outcome: model.OutcomeActiveTerminated, drop: true,
			record: "00030100 31160000 007b0901 80000000 00000000 3f000002 40000009 01020000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := testConfig()
			if test.config != nil {
				test.config(&config)
			}
			packet := ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, test.header), test.payload...))
			result := mustNode(t, config).Ingress(Frame{Data: packet, Link: LinkNone, Interface: max(test.iface, ifIngress), Time: testTime})
			if result.Outcome != test.outcome || (result.Verdict == Drop) != test.drop || (result.Loopback != nil) != test.copied {
				t.Fatalf("%v %v, copy %+v", result.Verdict, result.Outcome, result.Loopback)
			}
			if test.copied && (!bytes.Equal(result.Loopback.Header, packet[40:]) || !bytes.Equal(result.Loopback.Packet, packet[:40])) {
				t.Errorf("%+v", result.Loopback)
			}
			if recorded := test.drop && test.iface == 0; recorded && result.Record == nil {
				t.Error("no record")
			}
			if test.record != "" && (result.Record == nil || !bytes.Equal(result.Record.Header, craft.Hex(t, test.record))) {
				t.Errorf("record %+v", result.Record)
			}
		})
	}
}

func returning(c *model.NodeConfig) { c.Namespaces[0].Loopback = true }
func ending(c *model.NodeConfig) {
	c.Namespaces[0].Remove, c.Namespaces[0].TerminateActive = true, true
}
func asking(c *model.NodeConfig) {
	c.Encapsulations = encapConfig(model.ModeAuto, func(e *model.Encapsulation) {
		e.Options = model.Traces(model.TraceOption{Namespace: 123, Type: model.LoopbackType, Size: 12, Loopback: 3})
	}).Encapsulations
}

// The flag is set on the first of every three packets that may have it.
func TestAsks(t *testing.T) {
	config := testConfig()
	asking(&config)
	checkAsks(t, config)
	config.Namespaces[0].Incremental = true
	config.Encapsulations[0].Options[0].Trace.Incremental = true
	checkAsks(t, config)
}

func checkAsks(t *testing.T, config model.NodeConfig) {
	t.Helper()
	node := mustNode(t, config)
	for i := range 9 {
		tunnel := egressFrame(ipv6Packet(ioam.NextHeaderIPv6, inner()))
		if node.Egress(tunnel).Asks {
			t.Error("a tunnel asks")
		}
		result := node.Egress(egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(10))))
		if set := result.Data[40+10]&2 != 0; result.Asks != (i%3 == 0) || set != result.Asks {
			t.Errorf("packet %d: asks %v, flag %v", i, result.Asks, set)
		}
	}
}
