// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// A domain that only exports aggregated flows has them at a collector that keeps what it receives, by node, with every
// packet; and of paths, it says that there are flows instead.
func TestKeepAggregatedFlows(t *testing.T) {
	t.Parallel()
	const count, size = 60, 200
	top := directExporting(t)
	for _, node := range e2e.Routers {
		e2e.Reconfigure(t, top, node, "export: every", "export: aggregate", "2001:db8:23::2]:4739", "2001:db8:23::2]:4740",
			"node: {export-limit", "node: {export-interval: 1s, export-limit")
	}
	l := e2e.Raise(t, top)
	k := keepAtAramis(t, l)
	awaitConnected(t, l)
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: 40 * time.Millisecond, Size: size, Port: 9000})
	var answer struct {
		Flows []struct {
			Node, Role      string
			FlowID          *uint32 `json:"flow_id"`
			Records         uint64
			Packets, Bytes  uint64
			Missing, Late   *uint64
			Unknown         uint64 `json:"missing_unknown"`
			Held            *struct{ Count uint64 }
			To              string  `json:"destination_address"`
			SourcePort      *uint16 `json:"source_port"`
			DestinationPort *uint16 `json:"destination_port"`
			Series          []struct{ Packets uint64 }
		}
	}
	whole := func() bool {
		k.ask(t, "/v1/flows?port=9000&since=10m&buckets=100", &answer)
		packets := uint64(0)
		for _, f := range answer.Flows {
			packets += f.Packets
		}
		return packets >= 3*count
	}
	e2e.Await(t, "the flow of all nodes", 30*time.Second, whole)
	roles := map[string]string{"athos": "encapsulating", "porthos": "transit", "aramis": "decapsulating"}
	if len(answer.Flows) != len(roles) {
		t.Fatalf("%+v", answer.Flows)
	}
	for _, f := range answer.Flows {
		inSteps := uint64(0)
		for _, s := range f.Series {
			inSteps += s.Packets
		}
		if f.Role != roles[f.Node] || f.FlowID == nil || f.Packets != count || inSteps != count ||
			f.Bytes != count*(40+8+size) || f.Records < 2 ||
			f.Missing == nil || *f.Missing != 0 || f.Late == nil || *f.Late != 0 || f.Unknown != 0 || *f.DestinationPort != 9000 ||
			f.Role == "transit" && f.Held == nil {
			t.Errorf("%+v", f)
		}
	}
	out, err := e2e.In(t, l, "aramis", "flow", "history", "--port", "9000")
	if err != nil || strings.Count(out, ":9000\n") != len(roles) || !strings.HasPrefix(out, "3 flows by node") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = e2e.In(t, l, "aramis", "path", "history")
	if err != nil || !strings.Contains(out, "aggregated flows") || !strings.Contains(out, "waymark flow history") {
		t.Errorf("%v\n%s", err, out)
	}
}
