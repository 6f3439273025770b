// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/datapath/delays"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/ioam"
)

func someDelays() []datapath.Delays {
	held := datapath.Delays{Key: delays.Key{Kind: datapath.DelayHeld, Ingress: 901, Egress: 902}, Sum: 30_000, Zero: 1}
	held.Buckets[208] = 3 // up to 2^-17 s, 7.6 µs
	segment := datapath.Delays{
		Key:      delays.Key{Kind: datapath.DelaySegment, From: 7, To: 2, Namespace: 123},
		Sum:      1_000_000_000,
		Negative: 4,
		Longer:   5,
	}
	segment.Buckets[480] = 1 // 1 s
	path := datapath.Delays{
		Key:        delays.Key{Kind: datapath.DelayPath, From: 0xffffffffffffff, To: 2, Wide: true, Namespace: 123},
		Incomplete: 6,
	}
	path.Buckets[2], path.Buckets[578] = 1, 2
	other := datapath.Delays{Key: delays.Key{Kind: datapath.DelayPath, Other: true}}
	other.Buckets[161] = 8
	return []datapath.Delays{held, segment, path, other}
}

// The API hands out every series, in JSON whose keys are a contract.
func TestGetDelays(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if d, err := h.Client.Delays(context.Background()); err != nil || d.Counted || len(d.Series) > 0 {
		t.Errorf("without histograms: %+v, %v", d, err)
	}
	list := someDelays()
	h.Datapath.Delayed.Store(&list)
	got, err := h.Client.Delays(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	seven, two, wide, namespace := uint64(7), uint64(2), uint64(0xffffffffffffff), ioam.NamespaceID(123)
	want := []api.DelaySeries{
		{Kind: "held", Ingress: "#901", Egress: "#902", Count: 4, Sum: 30_000, Zero: 1, Buckets: []api.DelayBucket{{Index: -273, Count: 3}}},
		{Kind: "segment", From: &seven, To: &two, Namespace: &namespace, Count: 1, Sum: 1_000_000_000, Negative: 4, Longer: 5, Buckets: []api.DelayBucket{{Index: -1, Count: 1}}},
		{Kind: "path", From: &wide, To: &two, Wide: true, Namespace: &namespace, Count: 3, Incomplete: 6, Buckets: []api.DelayBucket{{Index: -479, Count: 1}, {Index: 97, Count: 2}}},
		{Kind: "path", Other: true, Count: 8, Buckets: []api.DelayBucket{{Index: -320, Count: 8}}},
	}
	if diff := cmp.Diff(want, got.Series); diff != "" || !got.Counted || got.Scale != 4 || got.ClockSynchronized == nil {
		t.Errorf("%+v: %s", got, diff)
	}
}

// The metrics have the histograms in seconds.
func TestDelayMetrics(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig+"names: [{id: 7, name: athos}]\n")
	list := someDelays()
	h.Datapath.Delayed.Store(&list)
	h.Start()
	body, err := h.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, want := range []string{
		`waymark_hop_held_seconds_bucket{egress="#902",ingress="#901",le="3.814697265625e-06"} 1`,
		`waymark_hop_held_seconds_bucket{egress="#902",ingress="#901",le="1.52587890625e-05"} 4`,
		`waymark_hop_held_seconds_sum{egress="#902",ingress="#901"} 3e-05`,
		`waymark_hop_held_seconds_count{egress="#902",ingress="#901"} 4`,
		`waymark_segment_delay_seconds_bucket{from="7",from_node="athos",namespace="123",to="2",to_node="gamma",le="0.25"} 0`,
		`waymark_segment_delay_seconds_bucket{from="7",from_node="athos",namespace="123",to="2",to_node="gamma",le="1"} 1`,
		`waymark_path_delay_seconds_bucket{from="72057594037927935",from_node="",namespace="123",le="16"} 1`,
		`waymark_path_delay_seconds_count{from="72057594037927935",from_node="",namespace="123"} 3`,
		`waymark_path_delay_seconds_bucket{from="other",from_node="",namespace="other",le="9.5367431640625e-07"} 0`,
		`waymark_path_delay_seconds_bucket{from="other",from_node="",namespace="other",le="3.814697265625e-06"} 8`,
		`waymark_delays_negative_total{kind="segment"} 4`, `waymark_delays_longer_total{kind="segment"} 5`,
		`waymark_delays_negative_total{kind="held"} 0`, `waymark_delays_other_total{kind="path"} 8`,
		`waymark_path_delays_incomplete_total 6`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Quantiles of the native histogram that a scraper gets are within 2.2% of the exact ones of the delays, counted
// as the programs do. Classic bounds are those of buckets.
func TestDelayQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 1))
	for name, draw := range map[string]func() float64{
		"microseconds": func() float64 { return 8000 + 500*random.Float64() },
		"lognormal":    func() float64 { return math.Exp(12 + 2*random.NormFloat64()) },
		"seconds":      func() float64 { return 6e9 * random.Float64() },
	} {
		var d datapath.Delays
		var exact []int64
		for range 20_000 {
			ns := int64(draw()) + 1
			exact = append(exact, ns)
			d.Buckets[int(math.Ceil(16*(math.Log2(float64(ns)/1e9)+30)))]++
			d.Sum += uint64(ns)
		}
		slices.Sort(exact)
		h := d.Histogram()
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
			rank, seen := uint64(math.Ceil(q*float64(len(exact)))), uint64(0)
			for _, b := range h.Buckets {
				if seen += b.Count; seen < rank {
					continue
				}
				want := float64(exact[rank-1]) / 1e9
				if got := math.Sqrt(exponential.Upper(b.Index-1, h.Scale) * exponential.Upper(b.Index, h.Scale)); math.Abs(got/want-1) > 0.022 {
					t.Errorf("%s: quantile %v is %g s, exactly %g", name, q, got, want)
				}
				break
			}
		}
		if h.Total() != uint64(len(exact)) {
			t.Errorf("%s: %d of %d delays", name, h.Total(), len(exact))
		}
		for _, bound := range descHeld.Bounds {
			if index := exponential.IndexOf(bound, h.Scale); exponential.Upper(index, h.Scale) != bound {
				t.Errorf("the classic bound %g is none of a bucket", bound)
			}
		}
	}
}
