// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// What is missed is compared with the aim and with the floor; what our programs are known to take
// is explained.
func TestShortfallOfRates(t *testing.T) {
	rate := func(ns float64) *float64 { pps := 1e9 / ns; return &pps }
	ns := func(v float64) *float64 { return &v }
	transit := Dimensions{Treatment: "our transit", Hook: "xdp", Format: "ids"}
	empty := Dimensions{Treatment: "hooks alone", By: ByEmptyProgram}
	part := func(name string) Dimensions { return Dimensions{Treatment: name} }
	limit := &Limit{
		Why:   "the hooks",
		Floor: Reference{Variant: empty},
		Ours:  []Reference{{"parts", part("parse"), 0}, {"parts", part("fill"), 0}},
	}
	of := func(took, alone float64, limit *Limit) Result {
		r := Result{Name: "forwarding", Machine: "one", Points: []Point{NewPoint(transit, 78), NewPoint(empty, 78), NewPoint(empty, 1236)}}
		r.Points[0].PPS, r.Points[0].Ratio, r.Points[0].Aim, r.Points[0].Limit = rate(took), 500/took, 0.8, limit
		r.Points[1].PPS, r.Points[1].Ratio = rate(alone), 500/alone
		r.Points[2].PPS, r.Points[2].Ratio = rate(900), 0.5
		return r
	}
	times := Result{Name: "parts", Machine: "one"}
	for name, took := range map[string]float64{"parse": 20, "fill": 30} {
		p := NewPoint(part(name), 118)
		p.NS = ns(took)
		times.Points = append(times.Points, p)
	}
	elsewhere := times
	elsewhere.Machine = "another"
	for _, test := range []struct {
		name   string
		result Result
		others []Result
		want   [4]string
	}{
		{"floor within the aim", of(700, 600, limit), []Result{times}, [4]string{"700 ns", "625 ns", "600 ns", "50.0 ns"}},
		{"nothing else measured", of(700, 600, limit), nil, [4]string{"700 ns", "625 ns", "600 ns", "100 ns"}},
		{"parts that take more than the distance", of(640, 620, limit), []Result{times}, [4]string{"640 ns", "625 ns", "620 ns", "0.0 ns"}},
		{"floor beyond the aim", of(700, 650, limit), nil, [4]string{"700 ns", "625 ns", "650 ns", "50.0 ns"}},
		{"parts of another machine", of(700, 650, limit), []Result{elsewhere}, [4]string{"700 ns", "625 ns", "650 ns", "50.0 ns"}},
		{"at the floor", of(700, 700, limit), nil, [4]string{"700 ns", "625 ns", "700 ns", "0.0 ns"}},
		{"no floor", of(700, 700, nil), nil, [4]string{"700 ns", "625 ns", "–", "–"}},
		{"a floor that is not measured", of(700, 700, &Limit{Floor: Reference{Variant: part("bare")}}), nil, [4]string{"700 ns", "625 ns", "–", "–"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.result.missedCells(test.result.Points[0], append(test.others, test.result)); got != test.want {
				t.Errorf("%q instead of %q", got, test.want)
			}
		})
	}
	fast := Result{Name: "fast", Points: []Point{NewPoint(transit, 78), NewPoint(empty, 78)}}
	fast.Points[0].PPS, fast.Points[0].Ratio, fast.Points[0].PlainRatio, fast.Points[0].PlainAim = rate(300), 1.9, 1.5, 1.75
	fast.Points[0].Limit = limit
	fast.Points[1].PPS, fast.Points[1].Ratio, fast.Points[1].PlainRatio = rate(270), 1.7, 5./3
	if got, want := fast.missedCells(fast.Points[0], measured{fast}), [4]string{"300 ns", "257 ns", "270 ns", "30.0 ns"}; got != want {
		t.Errorf("against plain packets: %q instead of %q", got, want)
	}
}

// A number of the kernel's build makes no other machine; anything else does.
func TestSameMachine(t *testing.T) {
	of := func(machine, kernel string) Result { return Result{Machine: machine, Kernel: kernel} }
	xeon := of("Xeon, 2 CPUs", "Linux 6.18.44-fc-v657")
	for _, test := range []struct {
		other Result
		same  bool
	}{
		{xeon, true},
		{of("Xeon, 2 CPUs", "Linux 6.18.44-fc-v595"), true},
		{of("Xeon, 2 CPUs", "Linux 6.18.44-fc"), true},
		{of("EPYC, 2 CPUs", "Linux 6.18.44-fc-v657"), false},
		{of("Xeon, 4 CPUs", "Linux 6.18.44-fc-v657"), false},
		{of("Xeon, 2 CPUs", "Linux 6.18.45-fc-v657"), false},
		{of("Xeon, 2 CPUs", "Linux 6.12.44-fc-v657"), false},
		{of("Xeon, 2 CPUs", "Linux 6.18.44-rt-v657"), false},
		{of("Xeon, 2 CPUs", "Linux 6.18.44"), false},
	} {
		if sameMachine(xeon, test.other) != test.same || sameMachine(test.other, xeon) != test.same {
			t.Errorf("%+v: the same as %+v: %v", test.other, xeon, !test.same)
		}
	}
	// Debian's numbers before the architecture are those of patches.
	if sameMachine(of("a", "Linux 6.1.0-18-amd64"), of("a", "Linux 6.1.0-21-amd64")) {
		t.Error("kernels with other patches are the same")
	}
	ns := 25.0
	p := NewPoint(Dimensions{Treatment: "parse"}, 118)
	p.NS = &ns
	built := Result{Name: "parts", Machine: "one", Kernel: "Linux 6.18.44-fc-v595", Points: []Point{p}}
	sum, ok := measured{
		built,
	}.sum(
		Result{Machine: "one", Kernel: "Linux 6.18.44-fc-v657"},
		[]Reference{{Benchmark: "parts", Variant: p.Dimensions}},
	)
	if !ok || sum != ns {
		t.Errorf("a part measured with another build: %v, %v", sum, ok)
	}
}

// Where all exports have to be sent at a rate, a missed aim says what was lost.
func TestLossless(t *testing.T) {
	pps := 1.9e6
	for _, test := range []struct {
		offered float64
		exports Exports
		met     bool
		want    string
	}{
		{1.99e6, Exports{Written: 10}, true, ""},
		{1.99e6, Exports{Written: 90, Lost: 10}, false, "1.990 Mpps, 10.00% lost | 2.000 Mpps, none lost | – | – |"},
		{1.9e6, Exports{Written: 90, Suppressed: 10}, false, "1.900 Mpps, 0.00% lost | 2.000 Mpps, none lost | – | – |"},
	} {
		p := NewPoint(Dimensions{Treatment: "postcards"}, 2)
		p.PPS, p.Ratio, p.Aim, p.Lossless, p.Reference, p.Offered, p.Exports = &pps, 1, 1, true, 2e6, test.offered, &test.exports
		r := Result{Name: "postcards", Machine: "one", X: "M/s", Points: []Point{p}}
		_, missed, _ := r.aims()
		if (len(missed) == 0) != test.met || p.Met() != test.met {
			t.Errorf("%+v: met: %v, %d missed", test.exports, p.Met(), len(missed))
		}
		if test.met {
			continue
		}
		if want, text := "| postcards | postcards, 2 M/s | "+test.want, pagesOf(r); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
		if text := shown(t, r); !strings.Contains(text, "≥ 0%, missed") {
			t.Errorf("%s", text)
		}
	}
}

// A time is compared with that of the floor, at the floor's x, and with what comes on top.
func TestShortfallOfTimes(t *testing.T) {
	point := func(treatment string, x, ns float64) Point {
		p := NewPoint(Dimensions{Treatment: treatment}, x)
		p.NS, p.Aim = &ns, 60
		return p
	}
	r := Result{Name: "srv6-parts", X: "flows", Points: []Point{
		point(
			"of a flow",
			1,
			92.5,
		), point("of a flow", 65536, 286), point("of no flow", 65536, 99), point("of no flow", 1, 59.9), point("hash", 5, 10),
	}}
	floor := func(treatment string, x float64) Reference {
		return Reference{Variant: Dimensions{Treatment: treatment}, X: x}
	}
	plus := []Reference{floor("hash", 0)}
	for _, test := range []struct {
		point int
		limit *Limit
		want  [4]string
	}{
		{0, nil, [4]string{"92.5 ns", "60.0 ns", "–", "–"}},
		{0, &Limit{Floor: floor("of no flow", 1)}, [4]string{"92.5 ns", "60.0 ns", "59.9 ns", "32.6 ns"}},
		{0, &Limit{Floor: floor("of no flow", 0), Plus: plus}, [4]string{"92.5 ns", "60.0 ns", "69.9 ns", "22.6 ns"}},
		{1, &Limit{Floor: floor("of a flow", 1)}, [4]string{"286 ns", "60.0 ns", "92.5 ns", "194 ns"}},
		{1, &Limit{Floor: floor("of no flow", 0)}, [4]string{"286 ns", "60.0 ns", "99.0 ns", "187 ns"}},
		{0, &Limit{Floor: floor("not measured", 0)}, [4]string{"92.5 ns", "60.0 ns", "–", "–"}},
		{0, &Limit{Floor: floor("of no flow", 1), Plus: []Reference{floor("not measured", 0)}}, [4]string{"92.5 ns", "60.0 ns", "–", "–"}},
	} {
		p := r.Points[test.point]
		p.Limit = test.limit
		if got := r.missedCells(p, measured{r}); got != test.want {
			t.Errorf("%q instead of %q", got, test.want)
		}
	}
	memory := 2048.0
	if got := r.missedCells(Point{Bytes: &memory, Aim: 1024}, nil); got != [4]string{"2048 bytes", "1024 bytes", "–", "–"} {
		t.Errorf("%q", got)
	}
}

// Times that are not added to a baseline's are shown for the baseline, too.
func TestWholeTimes(t *testing.T) {
	ns := func(v float64) *float64 { return &v }
	points := []Point{
		{Variant: "reflector", X: 44, NS: ns(5100), Ratio: 1.2, Reference: 4250, Aim: 5000},
		{Variant: "sent back", X: 44, NS: ns(4250), Ratio: 1, Reference: 4250},
	}
	whole, added := shown(t, Result{Name: "stamp", X: "octets", Points: points}), shown(t, Result{Name: "latency", Points: points})
	for _, want := range []string{"| OCTETS | NS | SPREAD |", "| reflector | 44 | 5100.0 | – | ≤ 5000, missed |",
		"| sent back | 44 | 4250.0 |"} {
		if !strings.Contains(whole, want) {
			t.Errorf("%q lacks %q", whole, want)
		}
	}
	for _, want := range []string{"| NS MORE | SPREAD |", "| sent back | 44 | – |"} {
		if !strings.Contains(added, want) {
			t.Errorf("%q lacks %q", added, want)
		}
	}
}

// An aim against plain packets is a loss through the stack, and a multiple with
// fast forwarding; one CPU is a baseline like any other.
func TestAimTexts(t *testing.T) {
	pps := 1e6
	point := func(d Dimensions, aim, plainAim float64) Point {
		p := NewPoint(d, 2)
		p.PPS, p.Ratio, p.PlainRatio, p.Aim, p.PlainAim = &pps, 1.85, 0.9, aim, plainAim
		return p
	}
	var text bytes.Buffer
	r := Result{Name: "any", X: "CPUs", Points: []Point{
		point(Dimensions{Treatment: "transit through the stack"}, 0, 0.87),
		point(Dimensions{Treatment: "fast transit"}, 0, 1.5),
		point(Dimensions{Treatment: "transit", Way: WayFast, Comparison: AgainstOneCPU, Size: 78, Flows: 64}, 1.9, 0),
	}}
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"≥ -13%, met", "-10.0%", "≥ 1.5 times, missed", "0.90 times", "≥ 90%, missed",
		"transit, flows: 64, fast forwarding against one CPU, 78 bytes"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// Aims met and missed, in the summary and in the table for a terminal.
func TestAims(t *testing.T) {
	ns := func(v float64) *float64 { return &v }
	r := Result{Name: "cost", Points: []Point{
		{Variant: "quick", NS: ns(30), Aim: 30}, {Variant: "slow", NS: ns(30.1), Aim: 30}, {Variant: "aimless", NS: ns(1e6)},
	}}
	f := Result{Name: "forwarding", Points: []Point{
		{Variant: "fast", PPS: ns(1e6), Ratio: 0.96, Aim: 0.96}, {Variant: "lame", PPS: ns(1e6), Ratio: 0.9599, Aim: 0.96},
	}}
	list := []Result{r, f}
	text := pagesOf(list...) + shown(t, r) + shown(t, f)
	for _, want := range []string{
		"| cost | slow, 0 bytes | 30.1 ns | 30.0 ns | – | – |\n", "| forwarding | lame, 0 bytes | 1000 ns | 1000 ns | – | – |\n",
		"[JSON](../../bench/results/cost.json) | 3 | 0 | 1 of 2 |", "| slow | 0 | 30.1 |", "≤ 30, missed", "≤ 30, met", "≥ -4%, missed", "| aimless | 0 | 1000000.0 | – | – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}

// shown is the table for a terminal, with bars between its cells.
func shown(t *testing.T, r Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return inCells(b.String())
}

// inCells has bars between the cells of a table for a terminal.
func inCells(text string) string {
	return "| " + regexp.MustCompile(`\n|  +`).ReplaceAllString(text, " | ")
}
