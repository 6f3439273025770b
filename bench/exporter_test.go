// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestExporterBenchmark(t *testing.T) {
	testnet.NeedRoot(t)
	program := filepath.Join(t.TempDir(), "waymark-bench")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../cmd/waymark-bench").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := runExporterBenchmark(context.Background(), Options{Duration: 2 * time.Second, Rounds: 1, Program: program})
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

// Threads stay off the last CPU until they are let back, also those that begin
// meanwhile; who pins himself there gets there.
func TestKeepApart(t *testing.T) {
	cpus, err := usableCPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	mayUse := func() bool {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // and never unlocked: a new thread for the next
			var set unix.CPUSet
			done <- unix.SchedGetaffinity(0, &set) == nil && set.IsSet(last)
		}()
		return <-done
	}
	apart, release, err := keepApart()
	if err != nil {
		t.Fatal(err)
	}
	if apart != (len(cpus) > 1) {
		t.Errorf("apart: %v, with %d CPUs", apart, len(cpus))
	}
	for range 20 {
		if mayUse() == apart {
			t.Fatalf("apart: %v, a thread may use CPU %d: %v", apart, last, !apart)
		}
	}
	unpin, err := pinThread(0)
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || !set.IsSet(last) || set.Count() != 1 {
		t.Errorf("pinned to %v (%v) instead of %d", set, err, last)
	}
	unpin()
	if err := release(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if !mayUse() {
			t.Fatalf("CPU %d is still left alone", last)
		}
	}
}

// What programs counted has to be what the way to export makes of the packets.
func TestExportsAreHeldToPackets(t *testing.T) {
	device := func(index int) netlink.Link { return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}} }
	counted := func(packets, postcards, lost, suppressed uint64) [][]datapath.Counters {
		c := datapath.Counters{Index: 2, Postcards: postcards, RecordsLost: lost, ExportsSuppressed: suppressed}
		c.Egress[model.OutcomeDirectExport] = packets
		return [][]datapath.Counters{{{Index: 1}, c}}
	}
	for _, test := range []struct {
		name                                 string
		way                                  model.ExportMode
		read                                 bool
		packets, postcards, lost, suppressed uint64
		want                                 string
	}{
		{"every", model.ExportEvery, true, 1000, 900, 100, 0, ""},
		{"every, one missing", model.ExportEvery, true, 1000, 999, 0, 0, "999 postcards of 1000 packets"},
		{"every, one too many", model.ExportEvery, true, 1000, 1001, 0, 0, "1001 postcards"},
		{"every, limited", model.ExportEvery, true, 1000, 999, 0, 1, "suppressed 1"},
		{"nobody", model.ExportEvery, false, 1000, 0, 0, 0, ""},
		{"nobody, a postcard", model.ExportEvery, false, 1000, 1, 0, 0, "nobody wants"},
		{"aggregate", model.ExportAggregate, true, 1000, 0, 0, 0, ""},
		{"aggregate, a postcard", model.ExportAggregate, true, 1000, 1, 0, 0, "1 postcards"},
		{"sample", model.ExportSample, true, 1000, 10, 1, 0, ""},
		{"sample of few", model.ExportSample, true, 20, 0, 0, 0, ""},
		{"sample, too few", model.ExportSample, true, 1000, 8, 0, 0, "8 postcards"},
		{"sample, too many", model.ExportSample, true, 1000, 12, 0, 0, "12 postcards"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &node{in: device(1), out: device(2)}
			if test.read {
				n.reader = &reader{}
				n.reader.postcards.Store(5 + test.postcards)
			}
			l := &line{nodes: []*node{n}}
			v := &variant{exports: test.way, wants: []want{has(0, datapath.HookEgressTC, model.OutcomeDirectExport)}}
			m := &measuring{results: make(map[*variant]*series)}
			err := m.exports(v, l, counted(7, 5, 3, 2), counted(7+test.packets, 5+test.postcards, 3+test.lost, 2+test.suppressed))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v instead of %q", err, test.want)
			}
			if err != nil || !test.read {
				return
			}
			if got := m.results[v].exports; got.Written != test.postcards || got.Lost != test.lost {
				t.Errorf("%+v", got)
			}
			if aggregated := test.way != model.ExportEvery; aggregated != (l.aggregated == test.packets) {
				t.Errorf("%d packets are to be in flows", l.aggregated)
			}
		})
	}
}

// Whoever makes records does not wait for an exporter that has ended, nor
// beyond the end of the context.
func TestExporterThatEnds(t *testing.T) {
	x, err := newExporter("[::1]:9", place(nodeConfig(), ours, other))
	if err != nil {
		t.Fatal(err)
	}
	make1 := exportedKinds["postcard-node"].maker(x)
	for n := range uint32(inFlight + together) {
		x.offer(make1(n))
	}
	done := make(chan error, 1)
	done <- nil
	if err := x.awaitRoom(context.Background(), done); err == nil || !strings.Contains(err.Error(), "ended with 0 of 40512 records sent") {
		t.Errorf("of an exporter that has ended: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	go func() {
		<-ctx.Done()
		done <- nil
	}()
	if err := x.awaitRoom(ctx, done); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of the context: %v", err)
	}
}
