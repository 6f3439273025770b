// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/e2e"
)

// Our dissector reads the AltMark option of a measured flow on the first link: its FlowMonID,
// and both values of the loss flag, which changes each second.
func TestAltMarkDissected(t *testing.T) {
	top := e2e.Builtin(t, "srv6")
	for _, node := range []string{"ingress", "north1", "north2", "south", "egress"} {
		e2e.Reconfigure(t, top, node, "mean-delay: true", "mean-delay: true, carrier: option")
	}
	l := e2e.Raise(t, top)
	wire := e2e.StartWire(t, l, "north1", "eth0")
	const count = 400
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: 10 * time.Millisecond, Size: 200, Port: 9001},
	)
	if err != nil || r.Received != count {
		t.Fatalf("%d of %d packets arrived: %v", r.Received, count, err)
	}
	wire.Stop(t)
	id := fmt.Sprint((&model.MeasuredFlow{Name: "north"}).FlowMonID())
	marked, marks := 0, map[string]int{}
	for _, p := range e2e.Dissect(t, wire.Path, "altmark && udp.dstport == 9001", "altmark.flow_mon_id", "altmark.loss", "altmark.delay",
		"altmark.length") {
		if len(p) != 4 || p[0] != id || p[3] != "" {
			t.Fatalf("the dissector reads %q, want FlowMonID %s", p, id)
		}
		marked++
		marks[p[1]]++
	}
	if marked != count || len(marks) != 2 {
		t.Errorf("the dissector finds %d options with the loss flags %v, want %d with both", marked, marks, count)
	}
}
