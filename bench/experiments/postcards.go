// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Postcards per second, in millions, and the aim: none is lost up to there.
var postcardRates = []float64{1, 1.5, 2, 2.5, 3}

const postcardRateAim = 2

// postcardTypes are the trace types of the postcards, and the kinds of record that
// they are to the exporter.
var postcardTypes = []struct {
	ioam.TraceType
	exported string
}{{typeNodeID, "postcard-node"}, {typeDelay, "postcard-times"}}

// postcardSlice is how often a rate is kept: packets come in bursts, one a slice. A
// CPU that was taken away for as many as mostLate makes up for them, as a network
// card does with the packets that have waited; what was missed before is left out.
const (
	postcardSlice = time.Millisecond
	mostLate      = 4
)

// runPostcards writes postcards at fixed rates on one CPU, and exports them on the
// others.
func runPostcards(ctx context.Context, o harness.Options) (r report.Result, err error) {
	apart, release, err := harness.KeepApart()
	if err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r = report.Result{
		Baseline: "as many postcards as packets",
		Axis:     "packets per second, in millions", X: "M/s",
		Notes: []string{
			"One CPU runs the program at egress, which writes a postcard for each packet. The others read, encode and send them as IPFIX over UDP. The rate is that of the records sent, the ratio the part of the packets with a record, rounded down. " +
				"The aim is met if no postcard was lost, suppressed or dropped in any round, and at least 99% of the rate was offered.",
		},
	}
	if !apart {
		r.Notes = append(r.Notes, "There is one CPU: programs and exporter take turns on it.")
	}
	// The program's thread waits for none of the others.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 1))
	share := o.Duration / time.Duration(o.Rounds*len(postcardTypes)*len(postcardRates))
	for _, kind := range postcardTypes {
		for _, rate := range postcardRates {
			s := &postcardSeries{}
			for round := range o.Rounds {
				o.Announce("%v, %v M/s: round %d of %d", kind, rate, round+1, o.Rounds)
				if err := s.turn(ctx, kind.TraceType, rate*1e6, share); err != nil {
					return report.Result{}, err
				}
			}
			r.Points = append(r.Points, s.point(kind.TraceType, kind.exported, rate))
		}
	}
	return r, nil
}

// postcardSeries holds a value for each round, and sums over all rounds.
type postcardSeries struct {
	rates, offered, parts []float64
	packets, sent         uint64
	processor             time.Duration // of reader and exporter
	exports               report.Exports
}

// add adds a round that took a time.
func (s *postcardSeries) add(packets, sent uint64, took time.Duration) {
	s.rates = append(s.rates, float64(sent)/took.Seconds())
	s.offered = append(s.offered, float64(packets)/took.Seconds())
	s.parts = append(s.parts, float64(sent)/float64(packets))
	s.packets, s.sent = s.packets+packets, s.sent+sent
}

// point sums the rounds up: a record that is missing in one of them is missing.
func (s *postcardSeries) point(kind ioam.TraceType, exported string, rate float64) report.Point {
	p := report.NewPoint(report.Dimensions{Treatment: fmt.Sprintf("postcards of trace type %v", kind)}, rate)
	p.PPS, p.Spread = harness.Figure(harness.Median(s.rates), 0), harness.Spread(s.parts, 3)
	p.Ratio = math.Floor(1e4*float64(s.sent)/float64(s.packets)) / 1e4
	p.Reference, p.Offered, p.Exports = rate*1e6, report.Round(harness.Median(s.offered), 0), &s.exports
	s.exports.Processor = report.Round(float64(s.processor.Nanoseconds())/float64(s.sent), 0)
	if rate <= postcardRateAim {
		p.Aim, p.Lossless = 1, true
		p.Limit = &report.Limit{
			Why:  "the work of reader and exporter from the ring to the socket",
			Ours: figuresOf("exporter", report.Dimensions{Treatment: exportedKinds[exported].name}),
		}
	}
	return p
}

// turn runs the program at a rate for a time.
func (s *postcardSeries) turn(ctx context.Context, kind ioam.TraceType, rate float64, share time.Duration) error {
	config := exportConfigs()[exportingTransit+"every"]
	runner, err := datapath.NewRunner(datapath.Config{Node: config}, ours, datapath.HookEgressTC)
	if err != nil {
		return err
	}
	defer runner.Close()
	unread, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		return problem.Wrap(
			fmt.Errorf("open a socket for a collector: %w", err),
			"the loopback interface has to be up",
		)
	}
	defer unread.Close()
	x, err := harness.NewExporter(unread.LocalAddr().String(), config)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	group, inner := errgroup.WithContext(inner)
	group.Go(func() error { return x.Run(inner) })
	reading, stop := context.WithCancel(inner)
	read := make(chan error, 1)
	go func() {
		read <- runner.ReadSamples(reading, datapath.Samples{
			Postcards: func(cards []datapath.Postcard) { x.Recorder.Postcards(cards, record.Clock{}, x.Offer) },
		})
	}()
	time.Sleep(slowStart)
	spent, err := processorTime(os.Getpid())
	began := time.Now()
	var own time.Duration
	if err == nil {
		own, err = runAtRate(inner, runner.Program(datapath.HookEgressTC), padded(110, directExportOption(kind, bothExtensions)), rate, share)
	}
	took := time.Since(began)
	time.Sleep(2 * postcardLag)
	all, fault := processorTime(os.Getpid())
	s.processor += all - spent - own
	stop()
	err = errors.Join(err, fault, <-read)
	cancel()
	if err = errors.Join(err, group.Wait()); err != nil {
		return err
	}
	counts, err := runner.Counters()
	if err != nil {
		return err
	}
	stats := x.Collector.Stats()
	s.exports.Add(
		report.Exports{Written: counts.Postcards, Lost: counts.RecordsLost, Suppressed: counts.ExportsSuppressed, Dropped: stats.Dropped},
	)
	packets := counts.Postcards + counts.RecordsLost + counts.ExportsSuppressed // also those of runs that a signal broke off
	s.add(packets, stats.Written, took)
	return nil
}

// slowStart is how long a new session over UDP limits its rate.
const slowStart = 700 * time.Millisecond

// postcardLag is how long the last postcards may wait to be read.
const postcardLag = 100 * time.Millisecond

// runAtRate runs a program with packets at a rate on the last CPU. It returns the
// processor time of that.
func runAtRate(ctx context.Context, program *ebpf.Program, frame []byte, rate float64, share time.Duration) (time.Duration, error) {
	release, err := harness.PinThread(0)
	if err != nil {
		return 0, err
	}
	defer release()
	in := harness.ArrivedAt(other)
	each := uint32(rate * postcardSlice.Seconds())
	before, err := threadTime()
	if err != nil {
		return 0, err
	}
	for began, next := time.Now(), time.Duration(0); next < share && ctx.Err() == nil; next += postcardSlice {
		for time.Since(began) < next { // asleep, the CPU would lose its pace
		}
		if next = max(next, time.Since(began)-mostLate*postcardSlice); next >= share {
			break
		}
		if _, err := program.Run(&ebpf.RunOptions{Data: frame, Context: &in, Repeat: each}); err != nil {
			return 0, fmt.Errorf("run the program at egress: %w", err)
		}
	}
	after, err := threadTime()
	return after - before, errors.Join(err, ctx.Err())
}

// threadTime is the processor time of this thread.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read the processor time of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
