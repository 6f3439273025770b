// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
)

// The node that removes an incremental trace adds its data to the record, if its namespace
// lets traces grow.
func TestIncrementalTraceOfRemovedHeader(t *testing.T) {
	for _, grows := range []bool{true, false} {
		h := newHarness(t, "")
		config := agenttest.BaseConfig
		if grows {
			config = strings.Replace(config, "{id: 123", "{id: 123, incremental: true", 1)
		}
		h.Write(config)
		h.Start()
		lines := agenttest.Observe(t, h.Client, api.RecordFilter{})
		raw := agenttest.RemovedHeader(t, "2001:db8:2::2")
		var err error
		if raw.Header, err = hex.DecodeString("1102" + "0100" + "310e0001" + "007b0803" + "80000000" + "40000001" + "01020000"); err != nil {
			t.Fatal(err)
		}
		h.Datapath.Records <- raw
		r := agenttest.Receive(t, lines)
		if r.Option != "incremental" || r.Nodes[0].NodeID.Value != 1 {
			t.Fatalf("record %+v", r)
		}
		own := r.Nodes[len(r.Nodes)-1]
		if grows && (len(r.Nodes) != 2 || r.Remaining.Value != 2 || own.HopLimit.Value != 62) ||
			!grows && (len(r.Nodes) != 1 || r.Remaining.Value != 3) {
			t.Errorf("grows %v: %+v", grows, r)
		}
	}
}
