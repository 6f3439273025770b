// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/doctor"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
)

// until waits for a state of the collector.
func (r *running) until(what string, ok func(h *query.Health) bool) (h query.Health) {
	r.t.Helper()
	for end := time.Now().Add(patience.Of(60 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		h = query.Health{}
		if r.ask("/v1/health", &h); ok(&h) {
			return h
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: %+v", what, h)
		}
	}
}

// faulty is a collector, and a sender whose nodes have faults.
type faulty struct {
	*running
	*storetest.Sender
}

// packets sends postcards of so many packets.
func (f *faulty) packets(n int) {
	f.t.Helper()
	for ; n > 0; n -= 9 {
		if err := f.Send(min(n, 9)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// Exporters that restart with other templates, that send everything twice, whose last node is late, and whose clocks,
// one or all, are hours ahead: each packet is kept once, with what is true of it.
func TestExporterFaults(t *testing.T) {
	t.Parallel()
	r := run(t, fmt.Sprintf(file+"join: {wait: 500ms}\n", t.TempDir()))
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := &faulty{r, s}
	f.packets(90)
	r.written(90)
	f.restart()
	f.twice()
	f.late()
	f.oneAhead()
	f.ahead()
}

// restart restarts all nodes: the same number has another template, and numbers of messages begin again.
func (f *faulty) restart() {
	if err := f.Restart(true); err != nil {
		f.t.Fatal(err)
	}
	f.packets(90)
	h := f.written(180)
	if others := lostAt(&h, "decode", "") - lostAt(&h, "decode", "sequence_out_of_order"); others > 0 {
		f.t.Errorf("%d errors of decoding: %+v", others, h.Lost)
	}
	for _, e := range h.Exporters {
		if e.Missed > 0 || e.Records != 180 || e.Templates != 1 {
			f.t.Errorf("after a restart: %+v", e)
		}
	}
}

// twice sends everything twice, as after a retransmission.
func (f *faulty) twice() {
	f.Deliver = func(_ int, message []byte) error {
		if err := f.Write(message); err != nil {
			return err
		}
		return f.Write(message)
	}
	f.packets(90)
	h := f.until("duplicates", func(h *query.Health) bool { return h.Store.Packets >= 270 && h.Counts["postcards_duplicate"] >= 450 })
	if h.Store.Packets != 270 {
		f.t.Errorf("%d packets of 270", h.Store.Packets)
	}
}

// late sends the last node's postcards after the wait.
func (f *faulty) late() {
	var held [][]byte
	f.Deliver = func(node int, message []byte) error {
		if node == storetest.Nodes-1 {
			held = append(held, bytes.Clone(message))
			return nil
		}
		return f.Write(message)
	}
	f.packets(90)
	f.written(360)
	for _, message := range held {
		if err := f.Write(message); err != nil {
			f.t.Fatal(err)
		}
	}
	h := f.until("late postcards", func(h *query.Health) bool { return h.Counts["postcards_late"] >= 90 })
	if h.Store.Packets != 360 || lostAt(&h, "join", "postcards_late") != 90 {
		f.t.Errorf("%d packets, %+v", h.Store.Packets, h.Lost)
	}
	var paths query.Paths
	f.ask("/v1/paths?since=1h", &paths)
	if paths.Packets != 360 || incomplete(&paths) != 90 {
		f.t.Errorf("%d packets, %d incomplete", paths.Packets, incomplete(&paths))
	}
}

// oneAhead sets the clock of the third node three hours ahead: packets are joined and ordered as before, their times and
// delays from end to end are right, and the times of the third node are shown as it reported them.
func (f *faulty) oneAhead() {
	const wrong = 2
	f.Ahead[wrong], f.Deliver = 3*time.Hour, nil
	f.packets(90)
	h := f.written(450)
	want := "one exporter has a clock that is ahead of the collector's: ::1, domain 3 by 3h0m"
	if text := strings.Join(h.Warnings, "\n"); !strings.Contains(text, want) {
		f.t.Errorf("%q", text)
	}
	var latest query.Packets
	f.ask("/v1/packets?since=1h&limit=90", &latest)
	for i := range latest.Packets {
		p := &latest.Packets[i]
		age := time.Since(p.Time.Time)
		if len(p.Nodes) != storetest.Nodes || age < 0 || age > time.Hour || p.Delay == nil || *p.Delay > int64(time.Second) {
			f.t.Fatalf("%+v", p)
		}
		for node := range p.Nodes {
			n, since := &p.Nodes[node], 0*time.Second
			if n.Since != nil {
				since = time.Duration(*n.Since).Round(time.Minute)
			}
			want := map[int]time.Duration{wrong: 3 * time.Hour, wrong + 1: -3 * time.Hour}[node]
			if n.ID == nil || *n.ID != uint64(node+1) || since != want {
				f.t.Fatalf("node %d: %v after the one before, want %v: %+v", node, since, want, n)
			}
		}
	}
	if len(latest.Packets) != 90 {
		f.t.Errorf("%d packets", len(latest.Packets))
	}
}

// ahead sets the nodes' clocks three hours ahead: packets are kept at these times, and health and doctor say so.
func (f *faulty) ahead() {
	for node := range f.Ahead {
		f.Ahead[node] = 3 * time.Hour
	}
	f.packets(90)
	h := f.written(540)
	var ahead query.Paths
	f.ask(
		"/v1/paths?from="+time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)+"&until="+time.Now().Add(4*time.Hour).UTC().Format(time.RFC3339),
		&ahead,
	)
	if ahead.Packets != 90 {
		f.t.Errorf("%d packets at the times that nodes reported", ahead.Packets)
	}
	if !strings.Contains(strings.Join(h.Warnings, "\n"), "a clock that is ahead") {
		f.t.Errorf("%q", h.Warnings)
	}
	if w := doctor.JudgeRunning(&h)[0].Warning; w == nil || w.Code != doctor.ExporterClockWrong || w.Severity != health.Error {
		f.t.Errorf("%+v", w)
	}
}

func incomplete(a *query.Paths) (n uint64) {
	for i := range a.Paths {
		n += a.Paths[i].Incomplete
	}
	return n
}

// lostAt is how much was lost at a stage, for a cause; "": for any.
func lostAt(h *query.Health, stage, cause string) (n uint64) {
	for _, l := range h.Lost {
		if l.Stage == stage && (cause == "" || l.Cause == cause) {
			n += l.Count
		}
	}
	return n
}

// While the disk has no room, nothing is written, and all that are asked say so: health, its reason once and without a
// number that changes, and every answer about that time.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := run(t, fmt.Sprintf(strings.Replace(file, "directory: %q", "directory: %q, free: 1000TB", 1), t.TempDir()))
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := &faulty{r, s}
	f.packets(9)
	h := r.until("a fault", func(h *query.Health) bool { return h.Store.Fault != "" })
	if h.OK || !strings.HasPrefix(h.Store.Fault, "the disk has less free than the 1000000000 MB that are to stay free (store.free)") {
		t.Errorf("%+v", h.Store)
	}
	if len(h.Buffers) != 1 || h.Buffers[0].Bytes == 0 || h.Buffers[0].Sockets == 0 || h.Buffers[0].Endpoint != "udp://"+r.to {
		t.Errorf("%+v", h.Buffers)
	}
	for _, path := range []string{"paths", "segments", "packets", "loss", "events"} {
		var a query.Answer
		r.ask("/v1/"+path+"?since=1h", &a)
		if len(a.Gaps) != 1 || !strings.HasPrefix(a.Gaps[0].Reason, "nothing is written: the disk has less free") {
			t.Errorf("%s: %+v", path, a)
		}
	}
	var before query.Answer
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	if r.ask("/v1/paths?from="+at(2*time.Hour)+"&until="+at(time.Hour), &before); len(before.Gaps) != 0 {
		t.Errorf("%+v", before)
	}
	r.loses = true
}
