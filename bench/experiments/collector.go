// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/collect/sender"
	"github.com/waymark-net/waymark/internal/problem"
)

// Rates of postcards in short and full runs, and what a run is full from.
const (
	collectorRate, collectorShortRate = 200_000, 20_000
	collectorFull                     = 30 * time.Second // of sending
)

// Aims of the collector.
const (
	collectorMemoryAim  = 2e9
	collectorDiskAim    = 50    // octets of a packet
	collectorVisibleAim = 2e9   // ns after the last postcard
	collectorAskedAim   = 300e6 // ns, of the slowest of 20 questions
)

// questions are those of the console's screens about the last hour, by name.
var questions = []struct{ name, path string }{
	{"paths of a prefix", "/v1/paths?source=2001:db8::/40"}, {"segments", "/v1/segments?order=link"}, {"grid", "/v1/grid"},
	{"changes of a prefix", "/v1/changes?source=2001:db8::/48"}, {"latest packets", "/v1/packets?limit=200"}, {"one packet", "/v1/packets?flow_id=20&sequence=2"},
}

// collectorRun is what a collector did with postcards.
type collectorRun struct {
	asked, offered float64 // postcards a second
	sent, kept     uint64  // postcards
	processor      float64 // ns for a postcard
	resident       float64 // octets, the most that was seen
	octets         float64 // on disk for a packet
	visible        float64 // ns from the last postcard of a packet until it was found
	took           map[string][]float64
	unanswered     int // questions for which the collector's time was over; they took at least what is noted
}

// runCollector sends the same postcards to waymark-collector, which keeps paths while it is asked, and to goflow2,
// which writes each as JSON.
func runCollector(ctx context.Context, o harness.Options) (report.Result, error) {
	program, err := o.ProgramFile()
	if err != nil {
		return report.Result{}, err
	}
	file := filepath.Join(filepath.Dir(program), "waymark-collector")
	if _, err := os.Stat(file); err != nil {
		return report.Result{}, problem.Wrap(
			fmt.Errorf("the collector is the program waymark-collector: %w", err),
			"run: make build",
		)
	}
	r := report.Result{
		Baseline: "goflow2 writing the same postcards as JSON lines, unjoined",
		Axis:     "postcards offered in a second", X: "postcards/s",
		Notes: []string{
			fmt.Sprintf(
				"Each packet has %d postcards. Sender and collector share the machine; processor times are those of the collector alone, with what the kernel does for it.",
				sender.Nodes,
			),
		},
	}
	other, found := findGoflow2(program)
	if !found {
		r.Notes = append(
			r.Notes,
			"goflow2 was skipped, because it is not there; run: scripts/setup.sh bench. Without it, ratios compare the collector with itself.",
		)
	}
	share := o.Duration / time.Duration(o.Rounds)
	if found {
		share /= 2
	}
	rate := collectorRate
	if share < collectorFull {
		rate = collectorShortRate
	}
	var ours, theirs []collectorRun
	for round := range o.Rounds {
		turns := []bool{true, false}
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, own := range turns {
			var one collectorRun
			switch {
			case own:
				o.Announce("round %d of %d: waymark-collector", round+1, o.Rounds)
				if one, err = measureCollector(ctx, file, rate, share); err == nil {
					ours = append(ours, one)
				}
			case found:
				o.Announce("round %d of %d: goflow2", round+1, o.Rounds)
				if one, err = measureGoflow2(ctx, other, rate, share); err == nil {
					theirs = append(theirs, one)
				}
			}
			if err != nil {
				return report.Result{}, err
			}
		}
	}
	for i := range ours {
		if n := ours[i].unanswered; n > 0 {
			r.Notes = append(
				r.Notes,
				fmt.Sprintf("%d questions had no answer in the time that the collector gives to each (api.time); that time counts.", n),
			)
		}
	}
	r.Points = collectorPoints(ours, theirs, rate)
	return r, nil
}

// medianOf is the median of a figure over rounds.
func medianOf(runs []collectorRun, of func(*collectorRun) float64) float64 {
	var list []float64
	for i := range runs {
		list = append(list, of(&runs[i]))
	}
	return harness.Median(list)
}

// collectorPoints are the figures of the collector, and those of goflow2 if it ran.
func collectorPoints(ours, theirs []collectorRun, rate int) (points []report.Point) {
	x := float64(rate)
	point := func(what, by string) report.Point {
		return report.NewPoint(report.Dimensions{Treatment: what, Format: by}, x)
	}
	beside := func(p *report.Point, of func(*collectorRun) float64) float64 {
		own := medianOf(ours, of)
		p.Reference = own
		if len(theirs) > 0 {
			p.Reference = medianOf(theirs, of)
		}
		p.Ratio = report.Round(own/p.Reference, 3)
		return own
	}
	for _, program := range []struct {
		name string
		runs []collectorRun
		aim  float64
	}{{"waymark-collector", ours, 1}, {"goflow2", theirs, 0}} {
		if len(program.runs) == 0 {
			continue
		}
		p := point("postcards kept", program.name)
		var x report.Exports
		for i := range program.runs {
			one := &program.runs[i]
			x.Add(report.Exports{Written: one.kept, Lost: one.sent - min(one.kept, one.sent)})
		}
		x.Processor = report.Round(medianOf(program.runs, func(c *collectorRun) float64 { return c.processor }), 0)
		p.Offered = report.Round(medianOf(program.runs, func(c *collectorRun) float64 { return c.offered }), 0)
		p.Ratio = float64(x.Written) / float64(x.Written+x.Lost)
		p.PPS, p.Reference, p.Exports, p.Aim, p.Lossless = harness.Figure(p.Offered*p.Ratio, 0), float64(rate), &x, program.aim, program.aim > 0
		points = append(points, p)
	}
	processor, memory, disk := point("processor time of a postcard", ""), point("resident memory", ""), point("octets on disk of a packet", "")
	processor.NS = harness.Figure(beside(&processor, func(c *collectorRun) float64 { return c.processor }), 0)
	memory.Bytes, memory.Aim = harness.Figure(beside(&memory, func(c *collectorRun) float64 { return c.resident }), 0), collectorMemoryAim
	disk.Bytes, disk.Aim = harness.Figure(beside(&disk, func(c *collectorRun) float64 { return c.octets }), 1), collectorDiskAim
	points = append(points, processor, memory, disk)
	alone := func(what string, aim float64, of func(*collectorRun) float64) {
		p := point(what, "")
		p.NS, p.Ratio, p.Aim = harness.Figure(medianOf(ours, of), 0), 1, aim
		p.Reference = *p.NS
		points = append(points, p)
	}
	alone("until a packet is found", collectorVisibleAim, func(c *collectorRun) float64 { return c.visible })
	for _, q := range questions {
		alone("question: "+q.name, collectorAskedAim, func(c *collectorRun) float64 { return percentile95(c.took[q.name]) })
	}
	return points
}

// percentile95 is the least value that 95% of them do not exceed.
func percentile95(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)*95+99)/100-1]
}

// measureCollector runs a collector, sends postcards to it for a time, and asks it meanwhile.
func measureCollector(ctx context.Context, file string, rate int, share time.Duration) (run collectorRun, err error) {
	directory, err := os.MkdirTemp("", "waymark-bench-")
	if err != nil {
		return run, err
	}
	defer os.RemoveAll(directory)
	settings := filepath.Join(directory, "collector.yaml")
	content := fmt.Sprintf(
		"listen: [\"udp://[::1]:0\"]\nstore: {directory: %q}\napi: {address: \"http://[::1]:0\"}\n",
		filepath.Join(directory, "store"),
	)
	if err := os.WriteFile(settings, []byte(content), 0o600); err != nil {
		return run, err
	}
	c, err := startReceiver(ctx, file, "run", "--config", settings)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	said, err := c.line(`receives at udp://(\S+), keeps in .*, answers at (\S+)`)
	if err != nil {
		return run, err
	}
	to, at := said[1], said[2]
	run.took = map[string][]float64{}
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	var fault error
	asked.Go(func() { fault = run.ask(asking, at, c) })
	s, err := sender.New(to)
	if err != nil {
		stop()
		asked.Wait()
		return run, err
	}
	defer s.Close()
	err = run.send(ctx, s, c, rate, share, func() (uint64, float64, error) {
		var h struct {
			Store struct {
				Packets uint64
				Bytes   float64
			}
		}
		err := get(ctx, at+"/v1/health", &h)
		return h.Store.Packets * sender.Nodes, h.Store.Bytes, err
	})
	stop()
	asked.Wait()
	if err := errors.Join(err, fault); err != nil {
		return run, err
	}
	for _, q := range questions { // those that had no turn while postcards came
		for len(run.took[q.name]) < 3 {
			if err := run.question(ctx, at, q.name, q.path); err != nil {
				return run, err
			}
		}
	}
	run.visible, err = untilFound(ctx, s, at, run.sent/sender.Nodes)
	return run, err
}

// send sends postcards at a rate, waits until the receiver has them all or gets no more, and notes what it took. kept
// says how many postcards it has, in how many octets.
func (run *collectorRun) send(
	ctx context.Context,
	s *sender.Sender,
	c *receiver,
	rate int,
	share time.Duration,
	kept func() (uint64, float64, error),
) error {
	before, err := processorTime(c.pid())
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	began := time.Now()
	packets, err := s.Rate(sending, rate/sender.Nodes)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	run.asked, run.sent = float64(rate), uint64(packets*sender.Nodes)
	run.offered = float64(run.sent) / time.Since(began).Seconds()
	var octets float64
	after := before // until the last postcard that was kept
	for last, at := uint64(0), time.Now(); run.kept < run.sent && time.Since(at) < 10*time.Second; {
		if run.kept, octets, err = kept(); err != nil {
			return err
		}
		if run.kept > last {
			last, at = run.kept, time.Now()
			if after, err = processorTime(c.pid()); err != nil {
				return err
			}
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	if run.kept == 0 {
		return fmt.Errorf("of %d postcards none was kept: %s", run.sent, c.said())
	}
	resident, err := residentMemory(c.pid())
	if err != nil {
		return err
	}
	run.resident = max(run.resident, resident)
	run.processor = float64((after - before).Nanoseconds()) / float64(run.kept)
	run.octets = octets / float64(run.kept/sender.Nodes)
	return nil
}

// ask asks a question now and then, until the context ends.
func (run *collectorRun) ask(ctx context.Context, at string, c *receiver) error {
	for n := 0; pause(ctx, 200*time.Millisecond) == nil; n++ {
		q := questions[n%len(questions)]
		if err := run.question(ctx, at, q.name, q.path); err != nil && ctx.Err() == nil {
			return err
		}
		if now, err := residentMemory(c.pid()); err == nil {
			run.resident = max(run.resident, now)
		}
	}
	return nil
}

// question asks, and notes how long the answer took.
func (run *collectorRun) question(ctx context.Context, at, name, path string) error {
	began := time.Now()
	var answer json.RawMessage
	err := get(ctx, at+path, &answer)
	switch refused := (*refusal)(nil); {
	case errors.As(err, &refused) && refused.status == http.StatusGatewayTimeout:
		run.unanswered++
	case err != nil:
		return err
	}
	run.took[name] = append(run.took[name], float64(time.Since(began).Nanoseconds()))
	return nil
}

// untilFound sends a packet's postcards, and is how long it takes until a question finds it.
func untilFound(ctx context.Context, s *sender.Sender, at string, number uint64) (ns float64, err error) {
	began := time.Now()
	if err := s.Send(1); err != nil {
		return 0, err
	}
	path := fmt.Sprintf("%s/v1/packets?since=1m&flow_id=%d&sequence=%d", at, number%uint64(s.Flows)+1, number/uint64(s.Flows)+1)
	for time.Since(began) < 30*time.Second {
		var a struct{ Packets []json.RawMessage }
		if err := get(ctx, path, &a); err != nil {
			return 0, err
		}
		if len(a.Packets) > 0 {
			return float64(time.Since(began).Nanoseconds()), nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("a packet was not found within 30 s")
}

// pause waits, unless the context ends.
func pause(ctx context.Context, span time.Duration) error {
	select {
	case <-time.After(span):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refusal is an answer that is an error.
type refusal struct {
	url    string
	status int
	body   []byte
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", r.url, r.status, http.StatusText(r.status), r.body)
}

// get reads an answer.
func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = &refusal{url, response.StatusCode, body}
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
