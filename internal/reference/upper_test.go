// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// A packet from a master may have arrived on a member that is not served.
func TestCompletionByMaster(t *testing.T) {
	const master = model.IfIndex(50)
	ids := "3f000002"
	for _, test := range []struct {
		name    string
		roles   model.Role
		header  string
		outcome model.Outcome
	}{
		{"unfinished", model.RoleIngress, "3b020100 31120000 007b1000 c0000000" + ids + "00c9ffff", model.OutcomeTraceFilled},
		{"finished", model.RoleIngress, "3b020100 31120000 007b1000 c0000000" + ids + "00c900cb", model.OutcomeUntouched},
		{"not by the domain's side", model.RoleEgress, "3b020100 31120000 007b1000 c0000000" + ids + "00c9ffff", model.OutcomeUntouched},
		{"another node's", model.RoleIngress, "3b020100 31120000 007b1000 c0000000 3f000003 00c9ffff", model.OutcomeUntouched},
		{"nobody's name", model.RoleIngress, "3b020100 310e0000 007b0800 40000000 00c9ffff 01020000", model.OutcomeUntouched},
		{"delay under way", model.RoleIngress, "3b020100 31120000 007b1000 88000000" + ids + "80000010", model.OutcomeTraceFilled},
		{"delay finished", model.RoleIngress, "3b020100 31120000 007b1000 88000000" + ids + "00000010", model.OutcomeUntouched},
		{"queue unknown", model.RoleIngress, "3b020100 31120000 007b1000 82000000" + ids + "ffffffff", model.OutcomeTraceFilled},
		{"queue known", model.RoleIngress, "3b020100 31120000 007b1000 82000000" + ids + "00000000", model.OutcomeUntouched},
		{"buffer unknown", model.RoleIngress, "3b020100 31120000 007b1000 80100000" + ids + "ffffffff", model.OutcomeTraceFilled},
		{"buffer known", model.RoleIngress, "3b020100 31120000 007b1000 80100000" + ids + "00000000", model.OutcomeUntouched},
		{"wide, unfinished", model.RoleIngress, "3b030100 31160000 007b1800 80400000" + ids + "000311f1 ffffffff 01020000", model.OutcomeTraceFilled},
		{"wide, finished", model.RoleIngress, "3b030100 31160000 007b1800 80400000" + ids + "000311f1 000315da 01020000", model.OutcomeUntouched},
	} {
		config := transitConfig()
		config.Uppers = []model.Upper{{Index: master, ID: 201, IDWide: 201201, Roles: test.roles}}
		frame := egressFrame(ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header)))
		frame.Ingress = master
		result := mustNode(t, config).Egress(frame)
		if result.Outcome != test.outcome {
			t.Errorf("%s: %v, want %v", test.name, result.Outcome, test.outcome)
		}
		if changed := !bytes.Equal(result.Data, frame.Data); changed != (test.outcome == model.OutcomeTraceFilled) {
			t.Errorf("%s: changed %v: %x", test.name, changed, result.Data[40:])
		}
	}
}

// A packet by a device whose interfaces below are all served passed this node's hook: its
// data need no id.
func TestCompletionByProvenUpper(t *testing.T) {
	const upper = model.IfIndex(50)
	for _, test := range []struct {
		name    string
		proven  bool
		outcome model.Outcome
	}{{"proven", true, model.OutcomeTraceFilled}, {"not proven", false, model.OutcomeUntouched}} {
		config := transitConfig()
		config.Uppers = []model.Upper{{Index: upper, ID: 201, IDWide: 201201, Roles: model.RoleIngress, VLAN: true, Proven: test.proven}}
		frame := egressFrame(
			ipv6Packet(
				ioam.NextHeaderHopByHop,
				craft.Hex(t, "3b020100 310e0000 007b0800 08000000"+hex32(delayPlaceholder(testTime-1000))+"01020000"),
			),
		)
		frame.Ingress = upper
		result := mustNode(t, config).Egress(frame)
		if result.Outcome != test.outcome {
			t.Errorf("%s: %v, want %v", test.name, result.Outcome, test.outcome)
		}
		if want := craft.Hex(t, "000003e8"); test.proven && !bytes.Equal(result.Data[56:60], want) {
			t.Errorf("%s: transit delay %x, want %x", test.name, result.Data[56:60], want)
		}
	}
}

// For a packet from a master, an encapsulating node writes only what is certain.
func TestEncapsulationByMaster(t *testing.T) {
	const master = model.IfIndex(50)
	for _, test := range []struct {
		id   ioam.InterfaceID
		want string
	}{{201, headerForwarded}, {ioam.InterfaceIDUnavailable, headerLocal}} {
		config := encapConfig(model.ModeAuto)
		config.Uppers = []model.Upper{{Index: master, ID: test.id, IDWide: ioam.InterfaceIDWideUnavailable, Roles: model.RoleIngress}}
		frame := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(10)))
		frame.Ingress = master
		result := mustNode(t, config).Egress(frame)
		if want := craft.Hex(t, "29"+test.want); !bytes.Equal(result.Data[40:80], want) {
			t.Errorf("%d: %v %x, want %x", test.id, result.Outcome, result.Data[40:80], want)
		}
	}
}
