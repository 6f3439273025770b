// SPDX-License-Identifier: Apache-2.0

package exponential

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The bounds of buckets are in the buckets that they end, at every scale.
func TestBounds(t *testing.T) {
	for scale := MinScale; scale <= MaxScale; scale++ {
		for index := -40; index <= 40; index++ {
			if bound := Upper(index, scale); IndexOf(bound, scale) != index || IndexOf(math.Nextafter(bound, math.Inf(1)), scale) != index+1 {
				t.Errorf("scale %d: %v is the upper bound of %d, and in %d", scale, bound, index, IndexOf(bound, scale))
			}
		}
	}
}

// spread are delays from nanoseconds to hours, with powers of two and the numbers beside them.
func spread(random *rand.Rand, n int) (list []int64) {
	for e := range 52 {
		list = append(list, max(1, int64(1)<<e-1), 1<<e, 1<<e+1)
	}
	for index := range 52 * perPower {
		bound := int64(Upper(index, DelayScale))
		list = append(list, bound, bound+1)
	}
	for len(list) < n {
		list = append(list, int64(math.Exp(random.Float64()*30))+1)
	}
	return list
}

// A delay is in the bucket in which the general histogram has it.
func TestDelayIndex(t *testing.T) {
	for _, ns := range spread(rand.New(rand.NewPCG(1, 2)), 200_000) {
		if got, want := delayIndex(uint64(ns)), IndexOf(float64(ns), DelayScale); got != want {
			t.Fatalf("%d ns is in bucket %d, want %d", ns, got, want)
		}
	}
	if got := delayIndex(math.MaxInt64); got != greatest {
		t.Errorf("the greatest delay is in bucket %d", got)
	}
}

// Quantiles are at most 2.2% beside the exact ones, whatever the distribution is.
func TestQuantile(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, draw := range map[string]func() int64{
		"uniform":   func() int64 { return random.Int64N(1_000_000) },
		"lognormal": func() int64 { return int64(math.Exp(12 + 2*random.NormFloat64())) },
		"two modes": func() int64 {
			if random.IntN(10) == 0 {
				return 80_000_000 + random.Int64N(10_000_000)
			}
			return 8_000 + random.Int64N(500)
		},
		"small": func() int64 { return random.Int64N(5) },
	} {
		var d Delays
		var exact []int64
		for range 20_000 {
			ns := draw()
			exact = append(exact, ns)
			d.Add(ns)
		}
		slices.Sort(exact)
		sum := uint64(0)
		for _, ns := range exact {
			sum += uint64(ns)
		}
		if d.Count() != 20_000 || d.Sum() != sum || d.Max() != exact[len(exact)-1] || d.Quantile(1) != d.Max() {
			t.Errorf("%s: %d delays of %d ns, at most %d", name, d.Count(), d.Sum(), d.Max())
		}
		for _, q := range []float64{0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999} {
			want := exact[max(int(math.Ceil(q*20_000)), 1)-1]
			if got := d.Quantile(q); math.Abs(float64(got-want)) > 0.022*float64(want)+0.5 {
				t.Errorf("%s: quantile %v is %d, exactly %d", name, q, got, want)
			}
		}
	}
	var none Delays
	if none.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a quantile")
	}
}

// Merged histograms, also of ranges that do not overlap, equal the histogram of all delays, and that is
// what is read back from JSON.
func TestMergeAndJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var all, merged Delays
		for range random.IntN(4) {
			var one Delays
			least := math.Exp(random.Float64() * 25)
			for range random.IntN(20) {
				ns := int64(least * random.Float64() * 10)
				one.Add(ns)
				all.Add(ns)
			}
			merged.Merge(&one)
		}
		text, err := json.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		var read Delays
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for name, got := range map[string]Delays{"merged": merged, "read": read, "copied": merged.Clone()} {
			if got.count != all.count || got.sum != all.sum || got.max != all.max || got.zero != all.zero ||
				!cmp.Equal(got.buckets(), all.buckets()) {
				t.Errorf("%s: %+v, want %+v", name, got, all)
			}
		}
		if h := merged.Histogram(); h.Total() != all.count {
			t.Errorf("the general histogram has %d of %d delays", h.Total(), all.count)
		}
		if merged.Reset(); merged.Count() != 0 || len(merged.buckets()) != 0 || merged.Quantile(1) != 0 {
			t.Error("an emptied histogram has delays")
		}
	}
}

// FuzzDelays refuses what is no histogram, and never allocates more than all buckets.
func FuzzDelays(f *testing.F) {
	for _, text := range []string{
		`{"sum_ns":0,"max_ns":0}`, `{"sum_ns":9,"max_ns":4,"zero":1,"buckets":[[32,2],[33,1]]}`, `{"sum_ns":1,"max_ns":1,"buckets":[[0,1]]}`,
		`{"sum_ns":9,"max_ns":4,"buckets":[[33,1],[32,2]]}`, `{"sum_ns":9,"max_ns":4,"buckets":[[99999999,1]]}`, `{"max_ns":-1}`,
		`{"sum_ns":1,"max_ns":1,"zero":1,"buckets":[[0,18446744073709551615]]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Delays
		if d.UnmarshalJSON(b) != nil {
			return
		}
		if len(d.counts) > greatest+2 || d.Quantile(0.5) < 0 || d.Quantile(0.5) > d.Max() {
			t.Errorf("%s: %+v", b, d)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var again Delays
		if err := again.UnmarshalJSON(text); err != nil || !cmp.Equal(again.buckets(), d.buckets()) || again.count != d.count {
			t.Errorf("%s becomes %s: %v", b, text, err)
		}
	})
}

func BenchmarkDelaysAdd(b *testing.B) {
	var d Delays
	list := spread(rand.New(rand.NewPCG(7, 8)), 8192)
	for i := 0; b.Loop(); i++ {
		d.Add(list[i&4095])
	}
}
