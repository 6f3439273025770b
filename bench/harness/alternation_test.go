// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/report"
)

// A benchmark that knows no turns takes one for each round, with its setup.
func TestWholeRoundsTakeTurns(t *testing.T) {
	var out bytes.Buffer
	a := &Alternation{in: json.NewDecoder(strings.NewReader(`{"turn":"x"}{"turn":"x"}{"turn":"x"}`)), out: json.NewEncoder(&out)}
	runs := 0
	b := Benchmark{Name: "x", Measure: func(_ context.Context, o Options) (report.Result, error) {
		if runs++; o.Rounds != 1 || o.Duration != time.Second || o.Alternates != nil {
			t.Errorf("a round has the options %+v", o)
		}
		return report.Result{Points: []report.Point{{X: float64(runs)}}}, nil
	}}
	if _, err := b.Run(t.Context(), Options{Rounds: 3, Duration: 3 * time.Second, Alternates: a}); err != nil || runs != 3 {
		t.Fatalf("%d runs, %v", runs, err)
	}
	for _, want := range []string{`{"turns":["x"]}`, `{"turn":"x"}`, `"x":1,`, `"x":2,`, `"x":3,`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	// Who gives no more turns ends the run.
	if _, err := b.Run(t.Context(), Options{Rounds: 1, Duration: time.Second, Alternates: a}); err == nil {
		t.Error("it went on without a turn")
	}
}
