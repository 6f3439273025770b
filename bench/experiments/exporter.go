// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Aims of the exporter: a million records per second and CPU, and bytes of
// memory.
const (
	exporterAim       = 1000 // ns for a record
	exporterMemoryAim = 64e6
)

// ExporterRun is what RunExporter did.
type ExporterRun struct {
	Records  uint64 `json:"records"`
	Messages uint64 `json:"messages"` // IPFIX messages with these records; 0 when none were sent
	Octets   uint64 `json:"octets"`
	// Processor is the time of all threads in ns, and Resident the resident
	// memory at the end in bytes.
	Processor int64   `json:"processor_ns"`
	Resident  float64 `json:"resident"`
}

// exportedKind is a kind of record that the exporter is measured with.
type exportedKind struct {
	name string
	kind ioam.TraceType
	flow bool
}

// exportedKinds are the kinds by the name that RunExporter takes.
var exportedKinds = map[string]exportedKind{
	"postcard-node":  {name: "postcard, trace type 0x800000", kind: typeNodeID},
	"postcard-times": {name: "postcard with ids, times and delay, trace type 0xf80000", kind: typeDelay},
	"postcard-all":   {name: "postcard of every field, trace type 0xfff000", kind: 0xfff000},
	"flow":           {name: "flow with delays", kind: typeDelay, flow: true},
}

// exportedOrder is their order in results.
var exportedOrder = []string{"postcard-node", "postcard-times", "postcard-all", "flow"}

// inFlight bounds the records waiting in the exporter's queue, so that none is
// dropped.
const inFlight = 40_000

// together is how many records are made before the exporter may run.
const together = 512

// RunExporter makes records of a kind on one CPU for about the given duration and
// exports them to a UDP collector; without an address it discards them. It needs
// a process of its own, because its threads stay on that CPU.
func RunExporter(ctx context.Context, kind, address string, duration time.Duration) (ExporterRun, error) {
	k, ok := exportedKinds[kind]
	if !ok {
		return ExporterRun{}, fmt.Errorf("no kind of records is called %q", kind)
	}
	cpus, err := harness.UsableCPUs()
	if err != nil {
		return ExporterRun{}, err
	}
	if err := harness.Confine(cpus[len(cpus)-1:]); err != nil {
		return ExporterRun{}, err
	}
	runtime.GOMAXPROCS(1)
	config := place(nodeConfig(), ours, other)
	x, err := harness.NewExporter(address, config)
	if address == "" {
		x, err = harness.NewExporter("[::1]:9", config) // this exporter does not run
	}
	if err != nil {
		return ExporterRun{}, err
	}
	if address == "" {
		return throwAway(x, k, duration)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- x.Run(running) }()
	began, err := processorTime(os.Getpid())
	if err != nil {
		stop()
		return ExporterRun{}, errors.Join(err, <-done)
	}
	made := k.maker(x)
	for n, deadline := uint32(0), time.Now().Add(duration); time.Now().Before(deadline) && ctx.Err() == nil; n += together {
		made(n, x.Offer)
		if err := awaitRoom(ctx, x, done); err != nil {
			stop()
			return ExporterRun{}, err
		}
		runtime.Gosched()
	}
	stop()
	if err := errors.Join(<-done, ctx.Err()); err != nil {
		return ExporterRun{}, err
	}
	s := x.Collector.Stats()
	if s.Written != s.Offered {
		return ExporterRun{}, fmt.Errorf("of %d records %d were sent: %+v", s.Offered, s.Written, s)
	}
	r, err := runSince(began)
	r.Records, r.Messages, r.Octets = s.Written, s.Messages, s.Octets
	return r, err
}

// awaitRoom waits until few enough records are waiting. It fails when the context
// or the exporter ends, because nothing would be sent any more.
func awaitRoom(ctx context.Context, x *harness.Exporter, done <-chan error) error {
	for s := x.Collector.Stats(); s.Offered > s.Written+s.Dropped+s.Unencodable+inFlight; s = x.Collector.Stats() {
		select {
		case <-ctx.Done():
			return errors.Join(<-done, ctx.Err())
		case err := <-done:
			return errors.Join(err, ctx.Err(), fmt.Errorf("the exporter ended with %d of %d records sent", s.Written, s.Offered))
		case <-time.After(50 * time.Microsecond):
		}
	}
	return nil
}

// throwAway makes records and discards them.
func throwAway(x *harness.Exporter, k exportedKind, duration time.Duration) (ExporterRun, error) {
	began, err := processorTime(os.Getpid())
	if err != nil {
		return ExporterRun{}, err
	}
	records, made := 0, k.maker(x)
	for n, deadline := uint32(0), time.Now().Add(duration); time.Now().Before(deadline); n += together {
		made(n, func(list ...record.Record) { records += len(list) })
	}
	r, err := runSince(began)
	r.Records = uint64(records)
	return r, err
}

func runSince(began time.Duration) (r ExporterRun, err error) {
	ended, err := processorTime(os.Getpid())
	if err != nil {
		return r, err
	}
	r.Processor = (ended - began).Nanoseconds()
	r.Resident, err = residentMemory(os.Getpid())
	return r, err
}

// maker returns a function that makes records from what programs would have
// written, as many as together, and offers them. Their first number is first.
func (k exportedKind) maker(x *harness.Exporter) func(first uint32, offer func(...record.Record)) {
	flow := model.Flow{
		Source:          harness.Source,
		Destination:     harness.Destination,
		NextHeader:      harness.NextUDP,
		SourcePort:      4242,
		DestinationPort: 9,
	}
	at := time.Now().UTC()
	if k.flow {
		return func(first uint32, offer func(...record.Record)) {
			for n := range uint32(together) {
				offer(x.Recorder.Flow(datapath.Flow{
					Role: model.RoleTransit, Ingress: ours, Egress: other, Namespace: namespace, Type: k.kind, ExtensionFlags: bothExtensions,
					FlowID: first + n, Flow: flow, Packets: 1000, Bytes: 1_500_000, First: at, Last: at.Add(time.Second),
					DelayCount: 1000, DelaySum: time.Millisecond, DelayMin: 500, DelayMax: 2000, HopLimitMin: 63, HopLimitMax: 63,
				}))
			}
		}
	}
	cards := make([]datapath.Postcard, together)
	return func(first uint32, offer func(...record.Record)) {
		for n := range cards {
			cards[n] = datapath.Postcard{Time: at, Postcard: model.Postcard{
				Role: model.RoleTransit, Ingress: ours, Egress: other, HopLimit: 63, Time: at.UnixNano(), TransitDelay: 700, QueueDepth: 0,
				Option: ioam.DirectExport{
					Namespace:      namespace,
					ExtensionFlags: bothExtensions,
					Type:           k.kind,
					FlowID:         0x5eed,
					Sequence:       first + uint32(n),
				},
				Flow: flow, Length: longPacket,
			}}
		}
		x.Recorder.Postcards(cards, record.Clock{}, offer)
	}
}

// runExporterBenchmark runs, in turns, processes that export and processes that
// discard.
func runExporterBenchmark(ctx context.Context, o harness.Options) (r report.Result, err error) {
	program, err := o.ProgramFile()
	if err != nil {
		return report.Result{}, err
	}
	apart, release, err := harness.KeepApart()
	if err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	share := o.Duration / time.Duration(o.Rounds*len(exportedOrder)*2)
	sums := make(map[string]*exporterSeries)
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
		order := slices.Clone(exportedOrder)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, kind := range order {
			if sums[kind] == nil {
				sums[kind] = &exporterSeries{}
			}
			if err := sums[kind].turn(ctx, program, kind, share, round%2 == 1); err != nil {
				return report.Result{}, fmt.Errorf("%s: %w", exportedKinds[kind].name, err)
			}
		}
	}
	r = report.Result{
		Baseline: "the same records made and thrown away",
		Axis:     "processors that the exporter may use", X: "CPUs",
		Notes: []string{
			"A time is that of the processor for one record, the kernel's part of sending it included: 1000 ns are a million records per second.",
		},
	}
	if !apart {
		r.Notes = append(r.Notes, "There is one CPU: collector and exporter take turns on it.")
	}
	for _, kind := range exportedOrder {
		r.Points = append(r.Points, sums[kind].points(exportedKinds[kind].name)...)
	}
	return r, nil
}

// exporterSeries holds the measurements of a kind of record: a value for each
// round.
type exporterSeries struct{ own, thrown, ratios, resident, bare []float64 }

func (s *exporterSeries) turn(ctx context.Context, program, kind string, share time.Duration, backwards bool) error {
	runs := []bool{false, true}
	if backwards {
		slices.Reverse(runs)
	}
	for _, exports := range runs {
		run, err := exporterProcess(ctx, program, kind, exports, share)
		if err != nil {
			return err
		}
		each := float64(run.Processor) / float64(run.Records)
		if exports {
			s.own, s.resident = append(s.own, each), append(s.resident, run.Resident)
		} else {
			s.thrown, s.bare = append(s.thrown, each), append(s.bare, run.Resident)
		}
	}
	s.ratios = append(s.ratios, s.own[len(s.own)-1]/s.thrown[len(s.thrown)-1])
	return nil
}

func (s *exporterSeries) points(name string) []report.Point {
	ns, memory := harness.Figure(harness.Median(s.own), 0), harness.Figure(harness.Median(s.resident), 0)
	processor, resident := report.NewPoint(
		report.Dimensions{Treatment: name},
		1,
	), report.NewPoint(
		report.Dimensions{Treatment: "resident memory", Format: name},
		1,
	)
	processor.NS, processor.Ratio, processor.Spread = ns, report.Round(harness.Median(s.ratios), 3), harness.Spread(s.own, 0)
	processor.Reference, processor.Aim = report.Round(harness.Median(s.thrown), 0), exporterAim
	resident.Bytes, resident.Ratio, resident.Spread = memory, report.Round(*memory/harness.Median(s.bare), 3), harness.Spread(s.resident, 0)
	resident.Reference, resident.Aim = report.Round(harness.Median(s.bare), 0), exporterMemoryAim
	return []report.Point{processor, resident}
}

// exporterProcess runs RunExporter in a process, and receives what it sends.
func exporterProcess(ctx context.Context, program, kind string, exports bool, duration time.Duration) (run ExporterRun, err error) {
	arguments := []string{"exporter", kind, duration.String()}
	var c *harness.Collector
	if exports {
		if c, err = harness.NewCollector(); err != nil {
			return run, err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		arguments = append(arguments, c.Address())
	}
	cpus, err := harness.UsableCPUs()
	if err != nil {
		return run, err
	}
	var out, said bytes.Buffer
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = &out, &said
	if err := harness.StartOn(command, cpus); err != nil {
		return run, fmt.Errorf("start %s: %w", program, err)
	}
	if err := command.Wait(); err != nil {
		return run, fmt.Errorf("%w: %s", err, said.String())
	}
	if err := json.Unmarshal(out.Bytes(), &run); err != nil {
		return run, fmt.Errorf("read what %s says: %w", program, err)
	}
	if run.Records == 0 || run.Processor <= 0 {
		return run, fmt.Errorf("nothing was measured: %s", out.String())
	}
	if c == nil {
		return run, nil
	}
	for deadline := time.Now().Add(time.Second); c.Octets.Load() < run.Octets && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if got := c.Octets.Load(); got < run.Octets-run.Octets/100 {
		return run, fmt.Errorf("the collector received %d of %d octets", got, run.Octets)
	}
	return run, nil
}
