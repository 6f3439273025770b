// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"testing"
)

// A packet from a master may have come by a member that is not served.
func TestCompletionByMaster(t *testing.T) {
	const master = IfIndex(50)
	ids := "3f000002"
	for _, test := range []struct {
		name    string
		roles   Role
		header  string
		outcome Outcome
	}{
		{"unfinished", RoleIngress, "3b020100 31120000 007b1000 c0000000" + ids + "00c9ffff", OutcomeTraceFilled},
		{"finished", RoleIngress, "3b020100 31120000 007b1000 c0000000" + ids + "00c900cb", OutcomeUntouched},
		{"not by the domain's side", RoleEgress, "3b020100 31120000 007b1000 c0000000" + ids + "00c9ffff", OutcomeUntouched},
		{"another node's", RoleIngress, "3b020100 31120000 007b1000 c0000000 3f000003 00c9ffff", OutcomeUntouched},
		{"nobody's name", RoleIngress, "3b020100 310e0000 007b0800 40000000 00c9ffff 01020000", OutcomeUntouched},
		{"delay under way", RoleIngress, "3b020100 31120000 007b1000 88000000" + ids + "80000010", OutcomeTraceFilled},
		{"delay finished", RoleIngress, "3b020100 31120000 007b1000 88000000" + ids + "00000010", OutcomeUntouched},
		{"queue unknown", RoleIngress, "3b020100 31120000 007b1000 82000000" + ids + "ffffffff", OutcomeTraceFilled},
		{"queue known", RoleIngress, "3b020100 31120000 007b1000 82000000" + ids + "00000000", OutcomeUntouched},
		{"wide, unfinished", RoleIngress, "3b030100 31160000 007b1800 80400000" + ids + "000311f1 ffffffff 01020000", OutcomeTraceFilled},
		{"wide, finished", RoleIngress, "3b030100 31160000 007b1800 80400000" + ids + "000311f1 000315da 01020000", OutcomeUntouched},
	} {
		config := transitConfig()
		config.Masters = []Master{{Index: master, ID: 201, IDWide: 201201, Roles: test.roles}}
		frame := egressFrame(ipv6(NextHeaderHopByHop, unhex(t, test.header)))
		frame.Ingress = master
		result := mustNode(t, config).Egress(frame)
		if result.Outcome != test.outcome {
			t.Errorf("%s: %v, want %v", test.name, result.Outcome, test.outcome)
		}
		if changed := !bytes.Equal(result.Data, frame.Data); changed != (test.outcome == OutcomeTraceFilled) {
			t.Errorf("%s: changed %v: %x", test.name, changed, result.Data[40:])
		}
	}
}

// An encapsulating node says of a master what is certain.
func TestEncapsulationByMaster(t *testing.T) {
	const master = IfIndex(50)
	for _, test := range []struct {
		id   InterfaceID
		want string
	}{{201, headerForwarded}, {InterfaceIDUnavailable, headerLocal}} {
		config := encapConfig(ModeAuto)
		config.Masters = []Master{{Index: master, ID: test.id, IDWide: InterfaceIDWideUnavailable, Roles: RoleIngress}}
		frame := egressFrame(ipv6(NextHeaderUDP, udp(10)))
		frame.Ingress = master
		result := mustNode(t, config).Egress(frame)
		if want := unhex(t, "29"+test.want); !bytes.Equal(result.Data[40:80], want) {
			t.Errorf("%d: %v %x, want %x", test.id, result.Outcome, result.Data[40:80], want)
		}
	}
}
