// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// The results of 5,000 flows reach an observer and a sink, in every block.
func TestResultsOfManyFlows(t *testing.T) {
	const flows, blocks = 5000, 3
	port := agenttest.FreePort(t)
	var in, out strings.Builder
	for i := range flows {
		const flow = "  - {name: f%d, direction: %s, source: 2001:db8::%x, segments: [\"fc00:2::e\"]%s}\n"
		fmt.Fprintf(&in, flow, i, "in", i+1, "")
		fmt.Fprintf(&out, flow, i, "out", i+1, `, points: ["[::1]:`+port+`"]`)
	}
	length := patience.Of(time.Second)
	how := fmt.Sprintf("measurement: {block: %v, guard: 100ms, clock-error: 1ms, mean-delay: true}\nflows:\n", length)
	far := newHarness(t, agenttest.BaseConfig+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n"+how+in.String())
	far.Start()
	near := newHarness(t, agenttest.BaseConfig+"export: [{kind: jsonl, path: "+filepath.Join(t.TempDir(), "sink")+"}]\n"+how+out.String())
	near.Start()
	ctx, cancel := context.WithTimeout(context.Background(), 60*length)
	defer cancel()
	got := map[uint64]int{}
	last := uint64(0)
	err := near.Client.Observe(ctx, api.RecordFilter{Kinds: "loss"}, nil, func(line []byte) error {
		r, err := record.Parse(line)
		if err != nil {
			return err
		}
		switch r := r.(type) {
		case *record.Lost:
			t.Errorf("%d records are lost", r.Count)
		case *record.Loss:
			if got[r.Block.Value]++; got[r.Block.Value] == flows {
				if last = r.Block.Value; len(got) > blocks {
					cancel()
				}
			}
		}
		return nil
	})
	if last == 0 {
		t.Fatalf("%v: no block is complete: %v", err, got)
	}
	complete := 0
	for block, n := range got {
		if n == flows {
			complete++
		}
		t.Logf("block %d: %d results", block, n)
	}
	if complete < blocks {
		t.Errorf("%d blocks are complete", complete)
	}
	for _, s := range near.Status().Records.Sinks {
		if s.Dropped > 0 || s.Written < flows*blocks {
			t.Errorf("%+v", s)
		}
	}
}
