// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// What goes out where this node writes nothing, as Linux does it: NodeLen and
// RemainingLen as configured, and the overflow flag only when the namespace is
// known.
func TestInsertedUnfilled(t *testing.T) {
	for _, test := range []struct {
		name     string
		mainline bool
		mode     Mode
		options  []TraceOption
		want     string
		outcome  Outcome
	}{
		{"unknown namespace", false, ModeInline, []TraceOption{{7, 0x800000, 8}}, "3b020100 31120000 00070802 80000000 00000000 00000000", OutcomeEncapUnfilled},
		{"unknown namespace, mainline", true, ModeInline, []TraceOption{{7, 0x800000, 8}}, "3b020100 31120000 00070802 80000000 00000000 00000000", OutcomeEncapUnfilled},
		{"unknown namespace, tunnel", false, ModeEncap, []TraceOption{{7, 0xf00000, 16}}, "29030100 311a0000 00072004 f0000000 00000000 00000000 00000000 00000000", OutcomeEncapUnfilled},
		{"unknown namespace, too small for any node", true, ModeInline, []TraceOption{{7, 0xc00000, 4}}, "3b020100 310e0000 00071001 c0000000 00000000 01020000", OutcomeEncapUnfilled},
		{"too small", true, ModeInline, []TraceOption{{123, 0xc00000, 4}}, "3b020100 310e0000 007b1401 c0000000 00000000 01020000", OutcomeEncapOverflow},
		{"too small, tunnel", true, ModeEncap, []TraceOption{{123, 0xc00000, 4}}, "29020100 310e0000 007b1401 c0000000 00000000 01020000", OutcomeEncapOverflow},
		{"too small for the schema", true, ModeInline, []TraceOption{{200, 0x000002, 8}}, "3b020100 31120000 00c80402 00000200 00000000 00000000", OutcomeEncapOverflow},
		{"filled, unknown", false, ModeInline, []TraceOption{{123, 0x800000, 4}, {7, 0x800000, 4}},
			"3b040100 310e0000 007b0800 80000000 40000002 310e0000 00070801 80000000 00000000 01020000", OutcomeEncapUnfilled},
		{"too small, filled, unknown", true, ModeInline, []TraceOption{{123, 0xc00000, 4}, {123, 0x800000, 4}, {7, 0x800000, 4}},
			"3b060100 310e0000 007b1401 c0000000 00000000 310e0000 007b0800 80000000 40000002 310e0000 00070801 80000000 00000000 01020000", OutcomeEncapOverflow},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(test.mode, func(e *Encapsulation) { e.Options = Traces(test.options...) })
			if test.mainline {
				config.Compatibility = CompatibilityMainline
			}
			packet := ipv6(NextHeaderNone, []byte{1})
			result := mustNode(t, config).Egress(egressFrame(packet))
			want := append(unhex(t, test.want), 1)
			if test.mode == ModeEncap {
				want = slices.Concat(unhex(t, test.want), packet)
			}
			if result.Outcome != test.outcome || result.Verdict != Pass || !bytes.Equal(result.Data[40:], want) {
				t.Errorf("%v\n%x, want %v\n%x", result.Outcome, result.Data[40:], test.outcome, want)
			}
		})
	}
}

// A Direct Export of a namespace that this node does not know goes out as any
// other; no export is made of it here.
func TestInsertedExportOfUnknownNamespace(t *testing.T) {
	config := encapConfig(ModeInline, func(e *Encapsulation) {
		e.Options = []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 7, Type: 0x800000, ExtensionFlags: ExtensionSequence}}}
	})
	node := mustNode(t, config)
	for sequence := range 2 {
		result := node.Egress(egressFrame(ipv6(NextHeaderNone, []byte{1})))
		want := unhex(t, "3b020100 110e0004 00070040 80000000 0000000"+fmt.Sprint(sequence)+" 01020000 01")
		if result.Outcome != OutcomeEncapInserted || len(result.Exports) != 0 || !bytes.Equal(result.Data[40:], want) {
			t.Errorf("%v, %d exports\n%x, want\n%x", result.Outcome, len(result.Exports), result.Data[40:], want)
		}
	}
}

// The nodes of the path fill what the encapsulating one left, and touch nothing
// where it set the overflow flag.
func TestUnfilledIsFilledByOthers(t *testing.T) {
	for _, test := range []struct {
		name     string
		option   TraceOption
		outcome  Outcome
		nodes    int
		overflow bool
	}{
		{"unknown at the first node", TraceOption{7, 0xc00000, 24}, OutcomeTraceFilled, 2, false},
		{"overflow", TraceOption{123, 0xc00000, 4}, OutcomeOverflowSet, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := encapConfig(ModeEncap, func(e *Encapsulation) { e.Options = Traces(test.option) })
			first.Compatibility = CompatibilityMainline
			data := mustNode(t, first).Egress(egressFrame(ipv6(NextHeaderUDP, udp(10)))).Data
			next := testConfig()
			next.Namespaces = append(next.Namespaces, Namespace{ID: 7})
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
			header, err := DecodeExtensionHeader(last.Record.Header)
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
				if err == nil && !test.overflow && len(nodes) != test.nodes || trace.Flags&FlagOverflow != 0 != test.overflow {
					t.Errorf("%d nodes (%v), flags %x", len(nodes), err, trace.Flags)
				}
			}
		})
	}
}

// A trace in which not even this node's data fit is refused unless Linux's ways
// are asked for; so is one of an unknown namespace in which no node's do.
func TestRoomOfProfiles(t *testing.T) {
	for _, test := range []struct {
		name    string
		option  TraceOption
		refused bool // by default
	}{
		{"this node's data", TraceOption{123, 0xc00000, 8}, false},
		{"less", TraceOption{123, 0xc00000, 4}, true},
		{"with the schema", TraceOption{200, 0x800002, 16}, false},
		{"with less than the schema", TraceOption{200, 0x800002, 12}, true},
		{"one node's data, unknown namespace", TraceOption{7, 0xc00000, 8}, false},
		{"no node's data, unknown namespace", TraceOption{7, 0xc00000, 4}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(ModeInline, func(e *Encapsulation) { e.Options = Traces(test.option) })
			if err := config.Validate(); (err != nil) != test.refused {
				t.Errorf("default: %v", err)
			}
			config.Compatibility = CompatibilityMainline
			if err := config.Validate(); err != nil {
				t.Errorf("mainline: %v", err)
			}
		})
	}
}
