// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	rate := func(ns float64) *float64 { pps := 1e9 / ns; return &pps }
	ns := func(v float64) *float64 { return &v }
	transit := Dimensions{Treatment: "our transit", Hook: "xdp", Format: "ids"}
	empty := Dimensions{Treatment: "hooks alone", By: ByEmptyProgram}
	part := func(name string) Dimensions { return Dimensions{Treatment: name} }
	limit := &Limit{Why: "the hooks", Floor: Reference{Variant: empty}, Ours: []Reference{{"parts", part("parse"), 0}, {"parts", part("fill"), 0}}}
	of := func(took, alone float64) Result {
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
	const takes = "*our transit at xdp, ids* (78 bytes) takes 700 ns a packet where the aim allows 625: "
	const begin = takes + "the hooks, makes it "
	for _, test := range []struct {
		name   string
		result Result
		others []Result
		want   string
	}{
		{"limit within the aim", of(700, 600), []Result{times}, takes + "not reached; the hooks, makes it 600, which is within the aim and so is no limit; " +
			"ours takes 100 ns more, our programs alone 50 with warm caches, the largest part: fill (30); 50 ns remain unexplained."},
		{"limit within the aim, nothing else measured", of(700, 600), nil, takes + "not reached; the hooks, makes it 600, which is within the aim and so is no limit; " +
			"100 ns remain unexplained."},
		{"parts that take more than the distance", of(640, 620), []Result{times}, "*our transit at xdp, ids* (78 bytes) takes 640 ns a packet where the aim allows 625: " +
			"not reached; the hooks, makes it 620, which is within the aim and so is no limit; " +
			"ours takes 20 ns more, our programs alone 50 with warm caches, the largest part: fill (30); 0 ns remain unexplained."},
		{"limit beyond the aim", of(700, 650), nil, begin + "650, which alone is beyond the aim; ours is 50 ns from that limit."},
		{"parts of another machine", of(700, 650), []Result{elsewhere}, begin + "650, which alone is beyond the aim; ours is 50 ns from that limit."},
		{"at the limit", of(700, 700), nil, begin + "700, which alone is beyond the aim; ours is at that limit."},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.result.Points[0]
			if got := test.result.distances([]Point{p}, append(test.others, test.result)); len(got) != 1 || got[0] != test.want {
				t.Errorf("%s\ninstead of\n%s", got, test.want)
			}
		})
	}
	fast := Result{Name: "fast", Points: []Point{NewPoint(transit, 78), NewPoint(empty, 78)}}
	fast.Points[0].PPS, fast.Points[0].Ratio, fast.Points[0].PlainRatio, fast.Points[0].PlainAim = rate(300), 1.9, 1.5, 1.75
	fast.Points[1].PPS, fast.Points[1].Ratio, fast.Points[1].PlainRatio = rate(270), 1.7, 5./3
	got := fast.distance(fast.Points[0], limit, measured{fast})
	if want := "takes 300 ns a packet where the aim allows 257: "; !strings.Contains(got, want) || !strings.Contains(got, "makes it 270, which alone is beyond") {
		t.Errorf("%s", got)
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
	sum, ok := measured{built}.sum(Result{Machine: "one", Kernel: "Linux 6.18.44-fc-v657"}, []Reference{{Benchmark: "parts", Variant: p.Dimensions}})
	if !ok || sum != ns {
		t.Errorf("a part measured with another build: %v, %v", sum, ok)
	}
}

// Where all exports have to be sent at a rate, a missed aim says what was lost, and
// what reader and exporter have time for.
func TestShortfall(t *testing.T) {
	exported := Dimensions{Treatment: "postcard, trace type 0x800000"}
	alone := Result{Name: "exporter", Machine: "one", Points: []Point{NewPoint(exported, 1)}}
	ns, pps := 266.0, 1.9e6
	alone.Points[0].NS = &ns
	limit := &Limit{Why: "the work of reader and exporter", Ours: []Reference{{Benchmark: "exporter", Variant: exported}}}
	for _, test := range []struct {
		offered   float64
		exports   Exports
		met       bool
		want      string
		elsewhere bool
	}{
		{1.99e6, Exports{Written: 10}, true, "", false},
		{1.99e6, Exports{Written: 90, Lost: 10, Processor: 400}, false,
			"is offered 1.990 of 2.000 million packets a second; of 100 postcards, 10 found no room in their ring, 0 none in the exporter's queue, and limits suppressed 0: " +
				"the work of reader and exporter takes a CPU 400 ns for each, of which the exporter alone takes 266; a CPU has time for 2.50 million a second.", false},
		{1.9e6, Exports{Written: 90, Suppressed: 10, Processor: 400}, false,
			"is offered 1.900 of 2.000 million packets a second, so that the rate was not reached; of 100 postcards, 0 found no room in their ring, 0 none in the exporter's queue, and limits suppressed 10: " +
				"the work of reader and exporter takes a CPU 400 ns for each; a CPU has time for 2.50 million a second.", true},
		{1.99e6, Exports{Written: 90, Dropped: 1}, false,
			"is offered 1.990 of 2.000 million packets a second; of 90 postcards, 0 found no room in their ring, 1 none in the exporter's queue, and limits suppressed 0.", false},
	} {
		p := NewPoint(Dimensions{Treatment: "postcards"}, 2)
		p.PPS, p.Ratio, p.Aim, p.Lossless, p.Reference, p.Offered, p.Exports, p.Limit = &pps, 1, 1, true, 2e6, test.offered, &test.exports, limit
		r := Result{Name: "postcards", Machine: "one", X: "M/s", Points: []Point{p}}
		if test.elsewhere {
			r.Machine = "another"
		}
		_, missed, _ := r.aims()
		if (len(missed) == 0) != test.met || p.Met() != test.met {
			t.Errorf("%+v: met: %v, %d missed", test.exports, p.Met(), len(missed))
		}
		if test.met {
			continue
		}
		if want := "*postcards* (2 M/s) " + test.want; r.distances(missed, measured{r, alone})[0] != want {
			t.Errorf("%s\ninstead of\n%s", r.distances(missed, measured{r, alone})[0], want)
		}
		if text := shown(t, r); !strings.Contains(text, "≥ 0%, missed") {
			t.Errorf("%s", text)
		}
	}
}

// A time is compared with that of the limit, at the limit's x, and with what comes on top.
func TestDistanceOfTimes(t *testing.T) {
	point := func(treatment string, x, ns float64) Point {
		p := NewPoint(Dimensions{Treatment: treatment}, x)
		p.NS, p.Aim = &ns, 60
		return p
	}
	r := Result{Name: "srv6-parts", X: "flows", Points: []Point{
		point("of a flow", 1, 92.5), point("of a flow", 65536, 286), point("of no flow", 65536, 99), point("of no flow", 1, 59.9), point("hash", 5, 10),
	}}
	floor := func(treatment string, x float64) Reference {
		return Reference{Variant: Dimensions{Treatment: treatment}, X: x}
	}
	plus := []Reference{floor("hash", 0)}
	for _, test := range []struct {
		x     float64
		limit *Limit
		want  string
	}{
		{1, nil, "takes 92.5 ns, 54.2% more than the aim of 60 ns: not reached; nothing that was measured sets a limit."},
		{1, &Limit{Why: "the walk", Floor: floor("of no flow", 1)}, "takes 92.5 ns, 54.2% more than the aim of 60 ns: not reached; the walk, makes it 60, which is within the aim and so is no limit; 33 ns remain unexplained."},
		{1, &Limit{Why: "the walk", Floor: floor("of no flow", 0), Plus: plus, Rest: "the key"}, "takes 92.5 ns, 54.2% more than the aim of 60 ns: the walk, makes it 70, which alone is beyond the aim; ours is 23 ns from that limit: the key."},
		{65536, &Limit{Why: "one flow", Floor: floor("of a flow", 1), Rest: "misses"}, "takes 286.0 ns, 376.7% more than the aim of 60 ns: one flow, makes it 92, which alone is beyond the aim; ours is 194 ns from that limit: misses."},
		{65536, &Limit{Why: "the walk", Floor: floor("of no flow", 0)}, "takes 286.0 ns, 376.7% more than the aim of 60 ns: the walk, makes it 99, which alone is beyond the aim; ours is 187 ns from that limit."},
		{1, &Limit{Why: "the walk", Floor: floor("not measured", 0)}, "takes 92.5 ns, 54.2% more than the aim of 60 ns: not reached; nothing that was measured sets a limit."},
		{1, &Limit{Why: "the walk", Floor: floor("of no flow", 1), Plus: []Reference{floor("not measured", 0)}}, "takes 92.5 ns, 54.2% more than the aim of 60 ns: not reached; nothing that was measured sets a limit."},
	} {
		p := r.Points[0]
		if test.x != 1 {
			p = r.Points[1]
		}
		if got := r.distance(p, test.limit, measured{r}); got != test.want {
			t.Errorf("%s\ninstead of\n%s", got, test.want)
		}
	}
}

// Times that are not added to a baseline's are shown for the baseline, too.
func TestWholeTimes(t *testing.T) {
	ns := func(v float64) *float64 { return &v }
	points := []Point{{Variant: "reflector", X: 44, NS: ns(5100), Ratio: 1.2, Reference: 4250, Aim: 5000}, {Variant: "sent back", X: 44, NS: ns(4250), Ratio: 1, Reference: 4250}}
	whole, added := shown(t, Result{Name: "stamp", X: "octets", Points: points}), shown(t, Result{Name: "latency", Points: points})
	for _, want := range []string{"| OCTETS | NS | SPREAD |", "| reflector | 44 | 5100.0 | – | ≤ 5000, missed |", "| sent back | 44 | 4250.0 |"} {
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

// Points of one variant share a line, each with its x.
func TestDistancesByVariant(t *testing.T) {
	rate := func(ratio, aim float64, x float64, treatment string) Point {
		p, pps := NewPoint(Dimensions{Treatment: treatment}, x), 1e9/500.
		p.PPS, p.Ratio, p.Aim = &pps, ratio, aim
		return p
	}
	r := Result{Name: "forwarding", Points: []Point{rate(0.8, 1, 78, "a"), rate(0.8, 1, 78, "b"), rate(0.6, 1, 1236, "a")}}
	want := []string{
		"*a* (78 bytes) takes 500 ns a packet where the aim allows 400: not reached; nothing that was measured sets a limit. With 1236 bytes, it takes 500 ns a packet where the aim allows 300: not reached; nothing that was measured sets a limit.",
		"*b* (78 bytes) takes 500 ns a packet where the aim allows 400: not reached; nothing that was measured sets a limit.",
	}
	if got := r.distances(r.Points, nil); !slices.Equal(got, want) {
		t.Errorf("%q", got)
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
	for _, want := range []string{"≥ -13%, met", "-10.0%", "≥ 1.5 times, missed", "0.90 times", "≥ 90%, missed", "transit, flows: 64, fast forwarding against one CPU, 78 bytes"} {
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
	text := string(Markdown(list)) + string(MissedPage(list)) + shown(t, r) + shown(t, f)
	for _, want := range []string{
		"\n## cost\n\n- *slow* (0 bytes) takes 30.1 ns, 0.3% more than the aim of 30 ns: not reached; nothing that was measured sets a limit.\n",
		"\n## forwarding\n\n- *lame* (0 bytes) takes 1000 ns a packet where the aim allows 1000: not reached; nothing that was measured sets a limit.\n",
		"[JSON](../bench/results/cost.json) | 0 | 1 of 2 |", "| slow | 0 | 30.1 |", "≤ 30, missed", "≤ 30, met", "≥ -4%, missed", "| aimless | 0 | 1000000.0 | – | – |",
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
	return "| " + regexp.MustCompile(`\n|  +`).ReplaceAllString(b.String(), " | ")
}
