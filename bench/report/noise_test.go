// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
)

// An aim that allows less than the noise is neither met nor missed, unless the figure is
// further from it than that. Noise is what differs between rounds, or between two lines.
func TestVerdicts(t *testing.T) {
	rate := 1e6
	point := func(ratio, aim, spread float64) Point {
		p := NewPoint(Dimensions{Treatment: "aggregate", Way: WayStack, Size: 78}, 1)
		p.PPS, p.Ratio, p.Aim, p.Spread = &rate, ratio, aim, &spread
		return p
	}
	twin := func(ratio float64, size int) Point {
		p := NewPoint(Dimensions{Treatment: "again", By: ByTwin, Way: WayStack, Size: size}, 1)
		p.PPS, p.Ratio = &rate, ratio
		return p
	}
	alone := point(0.993, 0.995, 0)
	alone.Spread = nil
	plain := point(0.993, 0.995, 0.02)
	plain.PlainRatio, plain.PlainAim = 0.8, 0.9
	for name, test := range map[string]struct {
		point Point
		twins []Point
		want  verdict
	}{
		"no noise":                 {point(0.993, 0.995, 0.001), nil, missed},
		"one round":                {alone, nil, missed},
		"noisy rounds":             {point(0.993, 0.995, 0.008), nil, inNoise},
		"noisy rounds, as wanted":  {point(0.997, 0.995, 0.008), nil, inNoise},
		"beyond the noise":         {point(0.980, 0.995, 0.008), nil, missed},
		"better than noise":        {point(1.010, 0.995, 0.008), nil, met},
		"noisy lines":              {point(0.980, 0.995, 0.001), []Point{twin(0.97, 78)}, inNoise},
		"noisy lines, faster":      {point(0.980, 0.995, 0.001), []Point{twin(1.03, 78)}, inNoise},
		"lines of other packets":   {point(0.980, 0.995, 0.001), []Point{twin(0.97, 1500)}, missed},
		"equal lines":              {point(0.980, 0.995, 0.001), []Point{twin(0.999, 78)}, missed},
		"aim greater than noise":   {point(0.930, 0.94, 0.03), nil, missed},
		"missed in another aim":    {plain, nil, missed},
		"without an aim":           {point(0.5, 0, 0.1), nil, met},
		"too noisy to be of use":   {point(0.5, 0.995, 0.6), nil, missed},
		"a multiple of a baseline": {point(2.4, 2.5, 0.2), nil, missed},
	} {
		r := Result{Name: "dex", Machine: "one", Points: append(test.twins, test.point)}
		if got := r.verdict(test.point); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if test.point.Aim == 0 {
			continue
		}
		text, summary := shown(t, r), pagesOf(r)
		if test.point.PlainAim == 0 && !strings.Contains(text, ", "+string(test.want)+" |") {
			t.Errorf("%s: the table lacks %q: %s", name, test.want, text)
		}
		row := "| dex | " + test.point.Variant + ", 1 bytes | "
		within := strings.Contains(summary, "0 of 1, 1 within noise")
		if within != (test.want == inNoise) || strings.Contains(summary, row) != (test.want != met) ||
			strings.Contains(summary, "| within noise |\n") != within {
			t.Errorf("%s: the summary is\n%s", name, summary)
		}
	}
}

// pagesOf are the pages about results.
func pagesOf(results ...Result) string {
	pages := Pages(results)
	return string(pages["results.md"]) + string(pages["missed-aims.md"])
}

// Until the kernel was measured with one queue, the page says that fast forwarding is
// compared with less.
func TestComparesWithLess(t *testing.T) {
	rate := 1e6
	with := func(name string, list ...Dimensions) Result {
		r := Result{Name: name}
		for _, d := range list {
			p := NewPoint(d, 1)
			p.PPS = &rate
			r.Points = append(r.Points, p)
		}
		return r
	}
	several, one := Dimensions{Treatment: "aggregate", Way: WayFast}, Dimensions{Treatment: "aggregate", Way: WayFast, Queues: 1}
	kernel := Dimensions{Treatment: "kernel forwarding", By: ByKernel, Queues: 1}
	text := pagesOf(
		with(
			"old",
			several,
		),
		with("new", several, kernel),
		with("single", one),
		with("scale", Dimensions{Treatment: "fast encapsulation"}),
		with("stack", Dimensions{Treatment: "transit"}),
	)
	if want := "only old, scale compare with"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}
