// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/test/testnet"
)

// What other programs read of a benchmark: every figure with its ratio to the
// baseline of the same run.
func TestRunJSON(t *testing.T) {
	testnet.NeedRoot(t)
	code, out, stderr := runBench("run", "cost", "--json", "--duration", "100ms", "--rounds", "1")
	var result struct {
		Name, Machine, Kernel, Baseline string
		Points                          []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != commandline.ExitOK {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if result.Name != "cost" || result.Machine == "" || result.Kernel == "" || result.Baseline == "" || len(result.Points) == 0 {
		t.Errorf("the result is %q of %q, %q, against %q, with %d points", result.Name, result.Machine, result.Kernel, result.Baseline, len(result.Points))
	}
	for _, p := range result.Points {
		variant, _ := p["variant"].(string)
		_, hasX := p["x"].(float64)
		_, hasNS := p["ns"].(float64)
		_, hasRatio := p["ratio"].(float64) // of so short a run it may be anything
		if variant == "" || !hasX || !hasNS || !hasRatio {
			t.Errorf("a point lacks variant, x, ns or ratio: %v", p)
		}
	}
}
