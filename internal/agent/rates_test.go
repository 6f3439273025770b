// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/e2e"
)

// Rates are of the time since the last sample but one; the last minutes are in steps of three samples. An
// interface whose counters begin anew has no past.
func TestRates(t *testing.T) {
	const filled, inserted, fast = model.OutcomeTraceFilled, model.OutcomeEncapInserted, model.OutcomeNoIOAM
	data := agenttest.NewDatapath()
	r := newRates(&core{datapath: opened{data}})
	begin := time.Now().Add(-time.Hour)
	sample := func(n int, in, out, forwarded uint64) {
		c := datapath.Counters{Index: 2, Name: "eth0"}
		c.Ingress[filled], c.Egress[inserted], c.Forwarded[fast] = in, out, forwarded
		data.SetCounters(c)
		r.sample(begin.Add(time.Duration(n)*ratePeriod), false)
	}
	rates := func(after time.Duration, in, out, forwarded uint64) *api.Rates {
		one := &api.Interface{Index: 2, Ingress: map[string]uint64{filled.String(): in}, Egress: map[string]uint64{inserted.String(): out},
			Forwarded: map[string]uint64{fast.String(): forwarded}}
		return r.of[2].rates(one, begin.Add(after))
	}
	sample(0, 1000, 0, 0)
	if got := rates(900*time.Millisecond, 2000, 0, 0); got != nil {
		t.Errorf("in the first second: %+v", got)
	}
	got := rates(4*time.Second, 1400, 0, 8)
	if got.Ingress[filled.String()] != 100 || len(got.Egress) != 0 || got.Forwarded[fast.String()] != 2 ||
		got.Over != 4e9 || len(got.InLast) != 0 {
		t.Errorf("after four seconds: %+v", got)
	}
	for n := 1; n <= 100; n++ { // 10 a second, later 40; with those that go on without the stack, 4 more
		sample(n, uint64(1000+100*n+300*max(0, n-90)), uint64(5*n), uint64(40*n))
	}
	got = rates(1005*time.Second, 14_600, 500, 4000)
	if in := got.Ingress[filled.String()]; in != (14_600-13_600)/15. || got.Over != 15e9 {
		t.Errorf("%v packets a second, over %d", in, got.Over)
	}
	if len(got.InLast) != rateSteps || len(got.OutLast) != rateSteps || got.Step != 30e9 {
		t.Fatalf("%+v", got)
	}
	for i, in := range got.InLast {
		if want := map[bool]float64{false: 14, true: 44}[i >= rateSteps-3]; i != rateSteps-4 && math.Abs(in-want) > 1e-9 {
			t.Errorf("step %d: %v packets a second, want %v", i, in, want)
		}
		if out := got.OutLast[i]; math.Abs(out-0.5) > 1e-9 {
			t.Errorf("step %d: %v leave a second", i, out)
		}
	}
	r.sample(begin.Add(1003*time.Second), true)
	if again := rates(1005*time.Second, 14_600, 500, 4000); again.Over != got.Over {
		t.Errorf("a change of the configuration is a sample of an interface that is known: %+v", again)
	}
	sample(101, 7, 0, 0)
	if got := rates(1012*time.Second, 27, 0, 0); got.Ingress[filled.String()] != 10 || len(got.InLast) != 0 {
		t.Errorf("begun anew: %+v", got)
	}
	data.SetCounters()
	r.sample(begin.Add(2*time.Hour), false)
	if len(r.of) != 0 {
		t.Error("an interface that is not there any more is remembered")
	}
}

// The status has them.
func TestStatusHasRates(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	c := datapath.Counters{Index: 2, Name: "eth0"}
	h.Datapath.SetCounters(c)
	h.Start()
	c.Ingress[model.OutcomeTraceFilled] = 5000
	h.Datapath.SetCounters(c)
	e2e.Await(t, "rates", 10*time.Second, func() bool {
		r := h.Status().Interfaces[0].Rates
		return r != nil && r.Ingress["trace_filled"] > 100
	})
}
