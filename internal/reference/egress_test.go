// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// allHeader is a trace of type 0xfff002 in namespace 200 with room for one
// node, whose snapshot takes 3 units: 15 + 3 units of data.
const allHeader = `3b0a0100 31520000 00c87812 fff00200
	00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
	00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000`

func TestCompletion(t *testing.T) {
	const arrival, departure = testTime, testTime + 18250 // 18252 in whole units of 4 ns
	for _, test := range []struct {
		name          string
		compatibility model.Compatibility
		format        ioam.TimestampFormat
		queueKnown    bool
		arrived, left string // node data after ingress and after egress
	}{
		{"default posix", model.CompatibilityDefault, ioam.TimestampPOSIX, true,
			"3f000002 00c9ffff 6b012a3c 00000001 %s deadbeef ffffffff complement 3f000000 0153158e 000311f1 ffffffff cafec0ca f00dc0de ffffffff 02000309 7261636b 20370000",
			"3f000002 00c900ca 6b012a3c 00000001 0000474c deadbeef 00000007 complement 3f000000 0153158e 000311f1 000315da cafec0ca f00dc0de 00002b00 02000309 7261636b 20370000"},
		{"default ptp, no queue", model.CompatibilityDefault, ioam.TimestampPTP, false,
			"3f000002 00c9ffff 6b012a61 000004d2 %s deadbeef ffffffff complement 3f000000 0153158e 000311f1 ffffffff cafec0ca f00dc0de ffffffff 02000309 7261636b 20370000",
			"3f000002 00c900ca 6b012a61 000004d2 0000474c deadbeef ffffffff complement 3f000000 0153158e 000311f1 000315da cafec0ca f00dc0de ffffffff 02000309 7261636b 20370000"},
		{"mainline", model.CompatibilityMainline, ioam.TimestampPOSIX, true,
			"3f000002 00c9ffff 6b012a3c 00000001 ffffffff deadbeef ffffffff ffffffff 3f000000 0153158e 000311f1 ffffffff cafec0ca f00dc0de ffffffff 02000309 7261636b 20370000",
			"3f000002 00c900ca 6b012a3c 00000001 ffffffff deadbeef 00002a00 ffffffff 3f000000 0153158e 000311f1 000315da cafec0ca f00dc0de ffffffff 02000309 7261636b 20370000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := testConfig()
			config.Compatibility, config.TimestampFormat = test.compatibility, test.format
			node := mustNode(t, config)
			result := node.Ingress(
				Frame{Data: ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, allHeader)), Link: LinkNone, Interface: ifIngress, Time: arrival},
			)
			arrived := strings.Replace(test.arrived, "%s", hex32(delayPlaceholder(arrival)), 1)
			if want := neutralData(t, arrived); !bytes.Equal(result.Data[56:], want) {
				t.Fatalf("arrived with\n%x, want\n%x", result.Data[56:], want)
			}
			result = node.Egress(Frame{Data: result.Data, Link: LinkNone, Interface: ifEgress, Ingress: ifIngress, Time: departure,
				QueueKnown: test.queueKnown, QueuePackets: 7, QueueBytes: 0x2a00, BufferKnown: test.queueKnown, BufferBytes: 0x2b00})
			if result.Outcome != model.OutcomeTraceFilled {
				t.Fatal(result.Outcome)
			}
			if want := neutralData(t, test.left); !bytes.Equal(result.Data[56:], want) {
				t.Errorf("left with\n%x, want\n%x", result.Data[56:], want)
			}
		})
	}
}

// neutralData is a node's data, written into space of zeros, in which the word
// "complement" makes up for all else and for the reduced RemainingLen: as 16-bit words,
// they add up to what RemainingLen was reduced by.
func neutralData(t *testing.T, text string) []byte {
	t.Helper()
	data := craft.Hex(t, strings.Replace(text, "complement", "00000000", 1))
	before, _, found := strings.Cut(strings.ReplaceAll(text, " ", ""), "complement")
	if !found {
		return data
	}
	field := len(before) / 2
	for value := range uint16(0xffff) {
		binary.BigEndian.PutUint16(data[field+2:], value)
		words := 0
		for i := 0; i < len(data); i += 2 {
			words += int(binary.BigEndian.Uint16(data[i:]))
		}
		if words%0xffff == len(data)/4 {
			return data
		}
	}
	t.Fatal("no complement")
	return nil
}

func TestCompletionMutations(t *testing.T) {
	const filled = "3b020100 310e0000 007b0800 80000000 3f000002 01020000"
	for _, test := range []struct {
		name    string
		header  string
		ingress model.IfIndex
		outcome model.Outcome
	}{
		{"right", filled, ifIngress, model.OutcomeTraceFilled},
		{"local", filled, 0, model.OutcomeUntouched},
		{"from an unserved interface", filled, ifOther, model.OutcomeUntouched},
		{"from the edge", filled, ifEdge, model.OutcomeUntouched},
		{"another node's id", "3b020100 310e0000 007b0800 80000000 3f000003 01020000", ifIngress, model.OutcomeUntouched},
		{"another node's wide id", "3b030100 31120000 007b1000 00800000 3f000000 0153158f 01060000 00000000", ifIngress, model.OutcomeUntouched},
		{"own wide id", "3b030100 31120000 007b1000 00800000 3f000000 0153158e 01060000 00000000", ifIngress, model.OutcomeTraceFilled},
		{"nothing filled yet", "3b020100 310e0000 007b0801 80000000 3f000002 01020000", ifIngress, model.OutcomeUntouched},
		{"no room for the snapshot", "3b020100 310e0000 007b0800 80000200 3f000002 01020000", ifIngress, model.OutcomeUntouched},
		{"unknown namespace", "3b020100 310e0000 007c0800 80000000 3f000002 01020000", ifIngress, model.OutcomeNamespaceUnknown},
		{"overflow", "3b020100 310e0000 007b0c00 80000000 3f000002 01020000", ifIngress, model.OutcomeOverflowSet},
		{"incremental", "3b020100 310e0001 007b0800 80000000 3f000002 01020000", ifIngress, model.OutcomeOptionUnsupported},
		{"malformed", "3b020100 310e0000 007b1000 80000000 3f000002 01020000", ifIngress, model.OutcomeMalformedNodeLength},
		{"malformed, not ours", "3b020100 310e0000 007b1000 80000000 3f000002 01020000", 0, model.OutcomeUntouched},
		{"option beyond", "3b020100 31ff0000 007b1000 80000000 3f000002 01020000", ifIngress, model.OutcomeMalformedHeader},
	} {
		for _, config := range []model.NodeConfig{testConfig(), mainlineConfig()} {
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			result := mustNode(t, config).Egress(Frame{Data: packet, Link: LinkNone, Interface: ifEgress, Ingress: test.ingress})
			if result.Outcome != test.outcome || result.Verdict != Pass || !bytes.Equal(result.Data, packet) {
				t.Errorf("%s: %v %v %x", test.name, result.Outcome, result.Verdict, result.Data)
			}
		}
	}
}

func TestTransitDelay(t *testing.T) {
	for _, test := range []struct {
		name  string
		stay  int64
		want  uint32
		start int64
	}{
		{"none", 0, 0, testTime},
		{"rounded to 4 ns", 18251, 18248, testTime &^ 3},
		{"largest", 1<<31 - 4, 1<<31 - 4, testTime},
		{"overflow", 1 << 31, 1 << 31, testTime},
		{"across the wrap", 1000, 1000, 1<<33*200 - 500},
		{"arrival all-ones", 8, 12, 1<<33*200 - 4}, // the placeholder is 4 ns early
	} {
		if got := transitDelay(test.start+test.stay, delayPlaceholder(test.start)); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
		if v := delayPlaceholder(test.start); v == ioam.DataUnavailable || v>>31 != 1 {
			t.Errorf("%s: placeholder %x", test.name, v)
		}
	}
}

// A transit delay that is already complete, or not available, stays.
func TestCompletedDelayStays(t *testing.T) {
	for _, value := range []string{"00000007", "ffffffff", "7fffffff"} {
		packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, "3b020100 31120000 007b1000 88000000 3f000002 "+value))
		result := mustNode(t, transitConfig()).Egress(egressFrame(packet))
		if result.Outcome != model.OutcomeTraceFilled || !bytes.Equal(result.Data, packet) {
			t.Errorf("%s: %v %x", value, result.Outcome, result.Data[40:])
		}
	}
}

// Without a node id in the type, a node that ends no tunnels assumes that the
// newest data are its own.
func TestCompletionWithoutID(t *testing.T) {
	packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, "3b020100 310e0000 007b0800 40000000 00c9ffff 01020000"))
	result := mustNode(t, transitConfig()).Egress(egressFrame(packet))
	if want := craft.Hex(t, "3b020100 310e0000 007b0800 40000000 00c900ca 01020000"); result.Outcome != model.OutcomeTraceFilled ||
		!bytes.Equal(result.Data[40:], want) {
		t.Errorf("%v %x, want %x", result.Outcome, result.Data[40:], want)
	}
}

// A packet whose header stays after all says "not measured".
func TestNoPlaceholderWhenRemoving(t *testing.T) {
	packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, "3b030100 310e0000 012c0801 08000000 00000000 05020000 01040000 00000000"))
	packet[5] = 0 // a jumbogram, from which no option is removed
	result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
	if result.Outcome != model.OutcomeRemovalPartial || !bytes.Equal(result.Data[56:60], []byte{255, 255, 255, 255}) {
		t.Errorf("%v %x", result.Outcome, result.Data[40:])
	}
}

func TestUnservedInterface(t *testing.T) {
	node := mustNode(t, testConfig())
	frame := Frame{Data: rightPacket(t), Link: LinkNone, Interface: ifOther, Ingress: ifIngress, GSOSize: 7}
	for _, result := range []Result{node.Ingress(frame), node.Egress(frame)} {
		if result.Outcome != model.OutcomeUntouched || result.Verdict != Pass || !bytes.Equal(result.Data, frame.Data) || result.GSOSize != 7 {
			t.Errorf("%+v", result)
		}
	}
}
