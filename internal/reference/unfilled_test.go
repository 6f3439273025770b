// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// Traces into which this node writes nothing, as Linux sends them: NodeLen and
// RemainingLen as configured, and the overflow flag only when the namespace is
// known.
func TestInsertedUnfilled(t *testing.T) {
	for _, test := range []struct {
		name     string
		mainline bool
		mode     model.Mode
		options  []model.TraceOption
		want     string
		outcome  model.Outcome
	}{
		{"unknown namespace", false, model.ModeInline, []model.TraceOption{{Namespace: 7, Type: 0x800000, Size: 8}}, "3b020100 31120000 00070802 80000000 00000000 00000000", model.OutcomeEncapUnfilled},
		{"unknown namespace, mainline", true, model.ModeInline, []model.TraceOption{{Namespace: 7, Type: 0x800000, Size: 8}}, "3b020100 31120000 00070802 80000000 00000000 00000000", model.OutcomeEncapUnfilled},
		{"unknown namespace, tunnel", false, model.ModeEncap, []model.TraceOption{{Namespace: 7, Type: 0xf00000, Size: 16}}, "29030100 311a0000 00072004 f0000000 00000000 00000000 00000000 00000000", model.OutcomeEncapUnfilled},
		{"unknown namespace, too small for any node", true, model.ModeInline, []model.TraceOption{{Namespace: 7, Type: 0xc00000, Size: 4}}, "3b020100 310e0000 00071001 c0000000 00000000 01020000", model.OutcomeEncapUnfilled},
		{"too small", true, model.ModeInline, []model.TraceOption{{Namespace: 123, Type: 0xc00000, Size: 4}}, "3b020100 310e0000 007b1401 c0000000 00000000 01020000", model.OutcomeEncapOverflow},
		{"too small, tunnel", true, model.ModeEncap, []model.TraceOption{{Namespace: 123, Type: 0xc00000, Size: 4}}, "29020100 310e0000 007b1401 c0000000 00000000 01020000", model.OutcomeEncapOverflow},
		{"too small for the schema", true, model.ModeInline, []model.TraceOption{{Namespace: 200, Type: 0x000002, Size: 8}}, "3b020100 31120000 00c80402 00000200 00000000 00000000", model.OutcomeEncapOverflow},
		{"filled, unknown", false, model.ModeInline, []model.TraceOption{{Namespace: 123, Type: 0x800000, Size: 4}, {Namespace: 7, Type: 0x800000, Size: 4}},
			"3b040100 310e0000 007b0800 80000000 40000002 310e0000 00070801 80000000 00000000 01020000", model.OutcomeEncapUnfilled},
		{"too small, filled, unknown", true, model.ModeInline, []model.TraceOption{{Namespace: 123, Type: 0xc00000, Size: 4}, {Namespace: 123, Type: 0x800000, Size: 4}, {Namespace: 7, Type: 0x800000, Size: 4}},
			"3b060100 310e0000 007b1401 c0000000 00000000 310e0000 007b0800 80000000 40000002 310e0000 00070801 80000000 00000000 01020000", model.OutcomeEncapOverflow},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(test.mode, func(e *model.Encapsulation) { e.Options = model.Traces(test.options...) })
			if test.mainline {
				config.Compatibility = model.CompatibilityMainline
			}
			packet := ipv6Packet(ioam.NextHeaderNone, []byte{1})
			result := mustNode(t, config).Egress(egressFrame(packet))
			want := append(craft.Hex(t, test.want), 1)
			if test.mode == model.ModeEncap {
				want = slices.Concat(craft.Hex(t, test.want), packet)
			}
			if result.Outcome != test.outcome || result.Verdict != Pass || !bytes.Equal(result.Data[40:], want) {
				t.Errorf("%v\n%x, want %v\n%x", result.Outcome, result.Data[40:], test.outcome, want)
			}
		})
	}
}

// A Direct Export of a namespace that this node does not know is inserted like
// any other, but this node does not export it.
func TestInsertedExportOfUnknownNamespace(t *testing.T) {
	config := encapConfig(model.ModeInline, func(e *model.Encapsulation) {
		e.Options = []model.InsertedOption{
			{DirectExport: &model.DirectExportOption{Namespace: 7, Type: 0x800000, ExtensionFlags: ioam.ExtensionSequence}},
		}
	})
	node := mustNode(t, config)
	for sequence := range 2 {
		result := node.Egress(egressFrame(ipv6Packet(ioam.NextHeaderNone, []byte{1})))
		want := craft.Hex(t, "3b020100 110e0004 00070040 80000000 0000000"+fmt.Sprint(sequence)+" 01020000 01")
		if result.Outcome != model.OutcomeEncapInserted || len(result.Postcards) != 0 || !bytes.Equal(result.Data[40:], want) {
			t.Errorf("%v, %d exports\n%x, want\n%x", result.Outcome, len(result.Postcards), result.Data[40:], want)
		}
	}
}

// The nodes on the path fill what the encapsulating node left empty, and change
// nothing if it set the overflow flag.
func TestUnfilledIsFilledByOthers(t *testing.T) {
	for _, test := range []struct {
		name     string
		option   model.TraceOption
		outcome  model.Outcome
		nodes    int
		overflow bool
	}{
		{"unknown at the first node", model.TraceOption{Namespace: 7, Type: 0xc00000, Size: 24}, model.OutcomeTraceFilled, 2, false},
		{"overflow", model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 4}, model.OutcomeOverflowSet, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := encapConfig(model.ModeEncap, func(e *model.Encapsulation) { e.Options = model.Traces(test.option) })
			first.Compatibility = model.CompatibilityMainline
			data := mustNode(t, first).Egress(egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(10)))).Data
			next := testConfig()
			next.Namespaces = append(next.Namespaces, model.Namespace{ID: 7})
			next.Decapsulations = nil
			result := checkedRun(t, next, Frame{Data: data, Link: LinkNone, Interface: ifIngress, Time: testTime}, false)
			if result.Outcome != test.outcome {
				t.Errorf("the second node: %v, want %v", result.Outcome, test.outcome)
			}
			next.Decapsulations = testConfig().Decapsulations
			last := checkedRun(t, next, Frame{Data: result.Data, Link: LinkNone, Interface: ifIngress, Time: testTime}, false)
			if last.Record == nil {
				t.Fatalf("%v without a record", last.Outcome)
			}
			header, err := ioam.DecodeExtensionHeader(last.Record.Header)
			if err != nil {
				t.Fatal(err)
			}
			for option := range header.Options() {
				o, err := option.IOAM()
				if err != nil {
					continue
				}
				trace, err := o.Trace()
				if err != nil {
					t.Fatal(err)
				}
				nodes, err := trace.Nodes()
				if err == nil && !test.overflow && len(nodes) != test.nodes || trace.Flags&ioam.FlagOverflow != 0 != test.overflow {
					t.Errorf("%d nodes (%v), flags %x", len(nodes), err, trace.Flags)
				}
			}
		})
	}
}

// A trace without room for this node's data is refused except with compatibility
// mainline; so is one of an unknown namespace without room for any node's data.
func TestRoomOfProfiles(t *testing.T) {
	for _, test := range []struct {
		name    string
		option  model.TraceOption
		refused bool // by default
	}{
		{"this node's data", model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 8}, false},
		{"less", model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 4}, true},
		{"with the schema", model.TraceOption{Namespace: 200, Type: 0x800002, Size: 16}, false},
		{"with less than the schema", model.TraceOption{Namespace: 200, Type: 0x800002, Size: 12}, true},
		{"one node's data, unknown namespace", model.TraceOption{Namespace: 7, Type: 0xc00000, Size: 8}, false},
		{"no node's data, unknown namespace", model.TraceOption{Namespace: 7, Type: 0xc00000, Size: 4}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(model.ModeInline, func(e *model.Encapsulation) { e.Options = model.Traces(test.option) })
			if err := config.Validate(); (err != nil) != test.refused {
				t.Errorf("default: %v", err)
			}
			config.Compatibility = model.CompatibilityMainline
			if err := config.Validate(); err != nil {
				t.Errorf("mainline: %v", err)
			}
		})
	}
}
