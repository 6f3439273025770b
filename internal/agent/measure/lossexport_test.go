// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/e2e"
)

// lossOutput keeps what a collector computes.
type lossOutput struct {
	mu   sync.Mutex
	list []*record.Loss
}

func (o *lossOutput) addLoss(r record.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := r.(*record.Loss); ok {
		o.list = append(o.list, l)
	}
}

// has reports whether a block has a verdict, and lost this many packets on a part of the
// way.
func (o *lossOutput) has(from, to loss.PointID, verdict loss.Verdict, lost uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.list {
		if l.Flow == "red" && l.From == from && l.To == to && l.Verdict == verdict && l.Lost.Value == lost && l.Lost.Valid == verdict.Exact() {
			return true
		}
	}
	return false
}

// Three agents export what they counted, and the collector says what was lost where. An
// agent that follows another exports no block twice, and one that is away makes blocks
// uncertain.
func TestBlocksAreExported(t *testing.T) {
	out := &lossOutput{}
	listen, err := collect.ParseEndpoint("tcp://[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	sinks := []sink.Sink{sink.NewQueued(sink.Each(out.addLoss), sink.Settings{})}
	c, err := collect.New(collect.Config{Listen: []collect.Endpoint{listen}, Enterprise: ipfix.EnterpriseExample, Sinks: sinks})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	agent := func(flow string) *harness {
		return newHarness(t, agenttest.BaseConfig+fmt.Sprintf(`measurement: {block: 200ms, guard: 40ms, clock-error: 1ms, exchange: ipfix}
flows: [{name: red, source: 2001:db8::1, segments: ["fc00:2::e"], %s}]
export: [{kind: ipfix, address: "%v"}]
`, flow, c.Endpoints()[0]))
	}
	ingress, transit, egress := agent(
		"direction: out, last-point: 2",
	), agent(
		"direction: transit, point: 1, last-point: 2",
	), agent(
		"direction: in, point: 2",
	)
	ingress.Start()
	e2e.Await(t, "uncertain blocks", 10*time.Second, func() bool { return out.has(0, 2, loss.Uncertain, 0) })
	transit.Start()
	egress.Datapath.LostPackets.Store(1)
	egress.Start()
	e2e.Await(t, "the loss, where it was", 10*time.Second, func() bool {
		return out.has(0, 2, loss.Measured, 1) && out.has(0, 1, loss.Measured, 0) && out.has(1, 2, loss.Measured, 1)
	})
	egress.Crash()
	egress.Start()
	list := egress.Datapath.ReportedBlocks("red")
	e2e.Await(t, "more blocks", 10*time.Second, func() bool { return len(egress.Datapath.ReportedBlocks("red")) > len(list)+2 })
	for i, block := range egress.Datapath.ReportedBlocks("red") {
		if i > 0 && block <= egress.Datapath.ReportedBlocks("red")[i-1] {
			t.Errorf("reported %v", egress.Datapath.ReportedBlocks("red"))
			break
		}
	}
	if s := c.Stats(); s.Assembled.Readings[loss.Contradicted]+s.Assembled.Readings[loss.Future] != 0 ||
		s.Assembled.Readings[loss.Taken] < 10 {
		t.Errorf("%+v", s.Assembled)
	}
}
