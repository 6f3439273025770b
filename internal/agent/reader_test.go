// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
)

// The node that removes an incremental trace adds its data to the record, if its namespace
// lets traces grow.
func TestIncrementalTraceOfRemovedHeader(t *testing.T) {
	for _, grows := range []bool{true, false} {
		h := newHarness(t, "")
		config := baseConfig
		if grows {
			config = strings.Replace(config, "{id: 123", "{id: 123, incremental: true", 1)
		}
		h.write(config)
		h.start()
		lines := observe(t, h.client, api.RecordFilter{})
		raw := removed(t, "2001:db8:2::2")
		var err error
		if raw.Header, err = hex.DecodeString("1102" + "0100" + "310e0001" + "007b0803" + "80000000" + "40000001" + "01020000"); err != nil {
			t.Fatal(err)
		}
		h.datapath.records <- raw
		r := receive(t, lines)
		if r.Option != "incremental" || r.Nodes[0].NodeID.Value != 1 {
			t.Fatalf("record %+v", r)
		}
		own := r.Nodes[len(r.Nodes)-1]
		if grows && (len(r.Nodes) != 2 || r.Remaining.Value != 2 || own.HopLimit.Value != 62) || !grows && (len(r.Nodes) != 1 || r.Remaining.Value != 3) {
			t.Errorf("grows %v: %+v", grows, r)
		}
	}
}
