// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/datapath/delays"
	"github.com/waymark-net/waymark/ioam"
)

func someDelays() []datapath.Delays {
	held := datapath.Delays{Key: delays.Key{Kind: datapath.DelayHeld, Ingress: 901, Egress: 902}, Sum: 30_000, Zero: 1}
	held.Buckets[208] = 3 // up to 8.192 µs
	segment := datapath.Delays{Key: delays.Key{Kind: datapath.DelaySegment, From: 7, To: 2, Namespace: 123}, Sum: 1_000_000_000, Negative: 4, Longer: 5}
	segment.Buckets[479] = 1 // 1 s
	path := datapath.Delays{Key: delays.Key{Kind: datapath.DelayPath, From: 0xffffffffffffff, To: 2, Wide: true, Namespace: 123}, Incomplete: 6}
	path.Buckets[0], path.Buckets[576] = 1, 2
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
		{Kind: "held", Ingress: "#901", Egress: "#902", Count: 4, Sum: 30_000, Zero: 1, Buckets: []api.DelayBucket{{Index: 207, Count: 3}}},
		{Kind: "segment", From: &seven, To: &two, Namespace: &namespace, Count: 1, Sum: 1_000_000_000, Negative: 4, Longer: 5, Buckets: []api.DelayBucket{{Index: 478, Count: 1}}},
		{Kind: "path", From: &wide, To: &two, Wide: true, Namespace: &namespace, Count: 3, Incomplete: 6, Buckets: []api.DelayBucket{{Index: -1, Count: 1}, {Index: 575, Count: 2}}},
		{Kind: "path", Other: true, Count: 8, Buckets: []api.DelayBucket{{Index: 160, Count: 8}}},
	}
	if diff := cmp.Diff(want, got.Series); diff != "" || !got.Counted || got.Scale != 4 || got.ClockSynchronized == nil {
		t.Errorf("%+v: %s", got, diff)
	}
}

// The metrics have the histograms in seconds.
func TestDelayMetrics(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	list := someDelays()
	h.Datapath.Delayed.Store(&list)
	h.Start()
	body, err := h.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, want := range []string{
		`waymark_hop_held_seconds_bucket{egress="#902",ingress="#901",le="4.096e-06"} 1`,
		`waymark_hop_held_seconds_bucket{egress="#902",ingress="#901",le="1.6384e-05"} 4`,
		`waymark_hop_held_seconds_sum{egress="#902",ingress="#901"} 3e-05`,
		`waymark_hop_held_seconds_count{egress="#902",ingress="#901"} 4`,
		`waymark_segment_delay_seconds_bucket{from="7",namespace="123",to="2",le="0.268435456"} 0`,
		`waymark_segment_delay_seconds_bucket{from="7",namespace="123",to="2",le="1.073741824"} 1`,
		`waymark_path_delay_seconds_bucket{from="72057594037927935",namespace="123",le="17.179869184"} 1`,
		`waymark_path_delay_seconds_count{from="72057594037927935",namespace="123"} 3`,
		`waymark_path_delay_seconds_bucket{from="other",namespace="other",le="1.024e-06"} 0`,
		`waymark_path_delay_seconds_bucket{from="other",namespace="other",le="4.096e-06"} 8`,
		`waymark_delays_negative_total{kind="segment"} 4`, `waymark_delays_longer_total{kind="segment"} 5`,
		`waymark_delays_negative_total{kind="held"} 0`, `waymark_delays_other_total{kind="path"} 8`,
		`waymark_path_delays_incomplete_total 6`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// A native bucket has the middle of that of the kernel, so that no value is farther than 4.4% from
// the middle of its native bucket, and a classic bound is one of the kernel's.
func TestNativeBuckets(t *testing.T) {
	for i := range len(datapath.Delays{}.Buckets) {
		var d datapath.Delays
		d.Buckets[i] = 1
		h := histogramOf(&d)
		if len(h.Native.Buckets) != 1 {
			t.Fatalf("bucket %d: %+v", i, h.Native)
		}
		middle := math.Exp2((float64(h.Native.Buckets[0].Index) + 0.5) / 16)
		for _, end := range []float64{float64(i) - 1, float64(i)} {
			if value := math.Exp2(end/16) / 1e9; math.Abs(value/middle-1) > 0.0443 {
				t.Errorf("bucket %d: %g s, and the native middle is %g", i, value, middle)
			}
		}
		for class, n := range h.Classic {
			bounds := append(delayBounds(), math.Inf(1))
			low := 0.0
			if class > 0 {
				low = bounds[class-1]
			}
			if value := math.Exp2((float64(i)-0.5)/16) / 1e9; (value > low && value <= bounds[class]) != (n == 1) {
				t.Errorf("bucket %d, %g s: classic bucket up to %g has %d", i, value, bounds[class], n)
			}
		}
	}
}
