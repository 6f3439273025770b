// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestExporterBenchmark(t *testing.T) {
	testnet.NeedRoot(t)
	program := built(t, "waymark-bench")
	r, err := runExporterBenchmark(context.Background(), harness.Options{Duration: 2 * time.Second, Rounds: 1, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Points) != 2*len(exportedKinds) {
		t.Errorf("%d points of %d kinds", len(r.Points), len(exportedKinds))
	}
	for _, p := range r.Points {
		switch {
		case p.NS != nil && (*p.NS < 100 || *p.NS > 50*exporterAim || p.Ratio <= 1 || p.Aim != exporterAim):
			t.Errorf("%s: %v ns, %v times what making a record takes; the aim is %v", p.Variant, *p.NS, p.Ratio, p.Aim)
		case p.Bytes != nil && (*p.Bytes < 5e6 || *p.Bytes > 500e6 || p.Aim != exporterMemoryAim):
			t.Errorf("%s: %v bytes; the aim is %v", p.Variant, *p.Bytes, p.Aim)
		case p.NS == nil && p.Bytes == nil:
			t.Errorf("%+v", p)
		}
	}
	if _, err := RunExporter(context.Background(), "nothing", "", time.Second); err == nil {
		t.Error("records of an unknown kind were made")
	}
}

// A maker of records waits neither for an exporter that has ended, nor after the
// end of the context.
func TestExporterThatEnds(t *testing.T) {
	x, err := harness.NewExporter("[::1]:9", place(nodeConfig(), ours, other))
	if err != nil {
		t.Fatal(err)
	}
	made := exportedKinds["postcard-node"].maker(x)
	for n := uint32(0); n < inFlight+together; n += together {
		made(n, x.Offer)
	}
	done := make(chan error, 1)
	done <- nil
	if err := awaitRoom(context.Background(), x, done); err == nil || !strings.Contains(err.Error(), "ended with 0 of 40960 records sent") {
		t.Errorf("of an exporter that has ended: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	go func() {
		<-ctx.Done()
		done <- nil
	}()
	if err := awaitRoom(ctx, x, done); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// Every postcard of a slow program is sent, however few a busy machine lets it write.
func TestPostcards(t *testing.T) {
	testnet.NeedRoot(t)
	_, release, err := harness.KeepApart()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	s := &postcardSeries{}
	if err := s.turn(t.Context(), typeNodeID, 20_000, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	p := s.point(typeNodeID, "postcard-node", 0.02)
	if p.Ratio != 1 || p.Exports.Written < 20 || p.Exports.Lost+p.Exports.Suppressed+p.Exports.Dropped > 0 || p.Offered <= 0 ||
		p.Offered > 1.1*p.Reference {
		t.Errorf("%+v, %+v", p, p.Exports)
	}
	if p.Exports.Processor < 100 {
		t.Errorf("reader and exporter take %v ns a record", p.Exports.Processor)
	}
}

// The aim is missed if one record of millions is missing in one round, or the rate
// was not offered; a rate beyond the aim has none.
func TestPostcardAims(t *testing.T) {
	const packets = 4_000_000
	made := func(lost report.Exports, sent uint64, took time.Duration) *postcardSeries {
		s := &postcardSeries{exports: lost, processor: 3 * packets * 400}
		s.add(packets, packets, 2*time.Second)
		s.add(packets, sent, took)
		s.add(packets, packets, took)
		return s
	}
	for _, test := range []struct {
		name  string
		s     *postcardSeries
		rate  float64
		ratio float64
		met   bool
	}{
		{"all", made(report.Exports{}, packets, 2*time.Second), 2, 1, true},
		{"one lost", made(report.Exports{Lost: 1}, packets-1, 2*time.Second), 2, 0.9999, false},
		{"one suppressed", made(report.Exports{Suppressed: 1}, packets-1, 2*time.Second), 2, 0.9999, false},
		{"one dropped", made(report.Exports{Dropped: 1}, packets-1, 2*time.Second), 2, 0.9999, false},
		{"one not sent", made(report.Exports{}, packets-1, 2*time.Second), 2, 0.9999, false},
		{"nearly offered", made(report.Exports{}, packets, 2015*time.Millisecond), 2, 1, true},
		{"not offered", made(report.Exports{}, packets, 2030*time.Millisecond), 2, 1, false},
		{"beyond the aim", made(report.Exports{Lost: packets / 2}, packets/2, 2*time.Second), 3, 0.8333, true},
	} {
		p := test.s.point(typeDelay, "postcard-times", test.rate)
		wanted := test.rate <= postcardRateAim
		if p.Ratio != test.ratio || p.Met() != test.met || p.Lossless != wanted || (p.Aim == 1) != wanted || (p.Limit != nil) != wanted {
			t.Errorf("%s: ratio %v, met: %v, %+v", test.name, p.Ratio, p.Met(), p)
		}
		if test.ratio == 1 && p.Exports.Processor != 400 {
			t.Errorf("%s: %v ns a record", test.name, p.Exports.Processor)
		}
	}
}
