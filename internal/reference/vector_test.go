// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// What a Linux 6.18 transit node writes: namespace 123, node 2 / 22222222,
// interfaces 201→202 / 201201→202202, hop limit 64 on arrival, no qdisc backlog.
// Each header is given as it arrives and as it leaves.
var kernelVectors = []struct {
	name            string
	arrive, leave   string
	ingress, egress model.Outcome
}{
	{
		name:    "node id",
		arrive:  "3b020100 310e0000 007b0801 80000000 00000000 01020000",
		leave:   "3b020100 310e0000 007b0800 80000000 3f000002 01020000",
		ingress: model.OutcomeTraceFilled, egress: model.OutcomeTraceFilled,
	},
	{
		name: "all supported bits",
		arrive: `3b090100 314a0000 007b7810 fff00200 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
			00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000`,
		leave: `3b090100 314a0000 007b7800 fff00200 3f000002 00c900ca 6b012a3c 00000001 ffffffff ffffffff 00000000 ffffffff
			3f000000 0153158e 000311f1 000315da ffffffff ffffffff ffffffff 00ffffff`,
		ingress: model.OutcomeTraceFilled, egress: model.OutcomeTraceFilled,
	},
	{
		name:    "overflow",
		arrive:  "3b020100 310e0000 007b1001 c0000000 00000000 01020000",
		leave:   "3b020100 310e0000 007b1401 c0000000 00000000 01020000",
		ingress: model.OutcomeTraceOverflow, egress: model.OutcomeOverflowSet,
	},
	{
		name:    "unknown namespace",
		arrive:  "3b020100 310e0000 007c0801 80000000 00000000 01020000",
		leave:   "3b020100 310e0000 007c0801 80000000 00000000 01020000",
		ingress: model.OutcomeNamespaceUnknown, egress: model.OutcomeNamespaceUnknown,
	},
	{
		name:    "loopback and active flags",
		arrive:  "3b020100 310e0000 007b0b01 80000000 00000000 01020000",
		leave:   "3b020100 310e0000 007b0b00 80000000 3f000002 01020000",
		ingress: model.OutcomeTraceFilled, egress: model.OutcomeTraceFilled,
	},
}

func TestKernelVectors(t *testing.T) {
	for _, vector := range kernelVectors {
		t.Run(vector.name, func(t *testing.T) {
			node := mustNode(t, mainlineConfig())
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, vector.arrive))
			arrived := node.Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
			if arrived.Outcome != vector.ingress || arrived.Verdict != Pass {
				t.Fatalf("ingress: %v, %v, want %v", arrived.Outcome, arrived.Verdict, vector.ingress)
			}
			left := node.Egress(Frame{Data: arrived.Data, Link: LinkNone, Interface: ifEgress, Ingress: ifIngress,
				Time: testTime + 5000, QueueKnown: true})
			if left.Outcome != vector.egress || left.Verdict != Pass {
				t.Fatalf("egress: %v, %v, want %v", left.Outcome, left.Verdict, vector.egress)
			}
			if got, want := left.Data[40:], craft.Hex(t, vector.leave); !bytes.Equal(got, want) {
				t.Errorf("left with\n%x, want\n%x", got, want)
			}
		})
	}
}
