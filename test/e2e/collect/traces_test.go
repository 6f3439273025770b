// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// The traces that a decapsulating node exports over IPFIX, by UDP and by TCP,
// equal those that its observers see, path delay included.
func TestCollectTraces(t *testing.T) {
	t.Parallel()
	const count = 20
	top := e2e.Domain(t, e2e.Modes(config.Attach(e2e.TCModes()[0]))[0])
	e2e.Reconfigure(t, top, "aramis", "node: {id: 3", `export:
  - {kind: ipfix, address: "udp://[::1]:4739"}
  - {kind: ipfix, address: "tcp://[::1]:4739", observation-domain: 33}
node: {id: 3`)
	l := e2e.Raise(t, top)
	cmd := l.Node("aramis").Command(t.Context(), e2e.Program, "collect", "--json")
	c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	// Both sessions are open, and the exporter has sent its node's name.
	place, err := l.Node("aramis").Place()
	if err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the exporters are connected", 20*time.Second, func() bool {
		status, err := api.NewClient(place.Socket()).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exporters := status.Records.Sinks
		return len(exporters) == 2 && !slices.ContainsFunc(exporters, func(e api.Sink) bool { return e.Connected == nil || !*e.Connected })
	})
	j := e2e.Keep(t, l, "aramis")
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: 2 * time.Millisecond, Size: 100, Port: 9000})
	seen := j.Read(t, count)
	e2e.Await(t, "every trace, twice", 10*time.Second, func() bool { return len(c.Lines()) >= 2*count })
	lines, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
	times := map[string]int{}
	for _, line := range lines {
		var r record.Trace
		if err := record.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		times[e2e.Line(t, r)]++
	}
	for _, r := range seen {
		if got := times[e2e.Line(t, r)]; got != 2 {
			t.Errorf("%d times: %s", got, e2e.Line(t, r))
		}
		way := r.Nodes[2].Timestamp.Value.Sub(r.Nodes[0].Timestamp.Value) // from the times in the packet
		if d := time.Duration(r.PathDelay.Value)*time.Microsecond - way; !r.PathDelay.Valid || way <= 0 || d.Abs() > time.Microsecond {
			t.Errorf("path delay %+v us, want %v", r.PathDelay, way)
		}
	}
	if diff := cmp.Diff(map[string]uint64{"traces": 2 * count, "hops": 6 * count, "traces_cut": 0}, map[string]uint64{
		"traces": stats.Counts["traces"], "hops": stats.Counts["hops"], "traces_cut": stats.Counts["traces_cut"]}); diff != "" {
		t.Error(diff)
	}
}
