// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
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

// Exporters that restart with other templates, that send everything twice, whose last node is late, and whose clocks
// are hours ahead: each packet is kept once, with what is true of it.
func TestExporterFaults(t *testing.T) {
	t.Parallel()
	r := run(t, fmt.Sprintf(file+"join: {wait: 500ms}\n", t.TempDir()))
	s, err := storetest.NewSender(r.udp)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	send := func(packets int) {
		t.Helper()
		for packets > 0 {
			n := min(packets, 9)
			if err := s.Send(n); err != nil {
				t.Fatal(err)
			}
			packets -= n
		}
	}
	send(90)
	r.written(90)

	// All nodes restart: the same number has another template, and numbers of messages begin again.
	if err := s.Restart(true); err != nil {
		t.Fatal(err)
	}
	send(90)
	h := r.written(180)
	if others := lostAt(&h, "decode", "") - lostAt(&h, "decode", "sequence_out_of_order"); others > 0 {
		t.Errorf("%d errors of decoding: %+v", others, h.Lost)
	}
	for _, e := range h.Exporters {
		if e.Missed > 0 || e.Records != 180 || e.Templates != 1 {
			t.Errorf("after a restart: %+v", e)
		}
	}

	// Everything comes twice, as after a retransmission.
	s.Deliver = func(_ int, message []byte) error {
		if err := s.Write(message); err != nil {
			return err
		}
		return s.Write(message)
	}
	send(90)
	h = r.until("duplicates", func(h *query.Health) bool { return h.Store.Packets >= 270 && h.Counts["postcards_duplicate"] >= 450 })
	if h.Store.Packets != 270 {
		t.Errorf("%d packets of 270", h.Store.Packets)
	}

	// The last node's postcards come after the wait.
	var held [][]byte
	s.Deliver = func(node int, message []byte) error {
		if node == storetest.Nodes-1 {
			held = append(held, bytes.Clone(message))
			return nil
		}
		return s.Write(message)
	}
	send(90)
	r.written(360)
	for _, message := range held {
		if err := s.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	h = r.until("late postcards", func(h *query.Health) bool { return h.Counts["postcards_late"] >= 90 })
	if h.Store.Packets != 360 || lostAt(&h, "join", "postcards_late") != 90 {
		t.Errorf("%d packets, %+v", h.Store.Packets, h.Lost)
	}
	var paths query.Paths
	r.ask("/v1/paths?since=1h", &paths)
	if paths.Packets != 360 || incomplete(&paths) != 90 {
		t.Errorf("%d packets, %d incomplete", paths.Packets, incomplete(&paths))
	}

	// The nodes' clocks are three hours ahead: packets are kept at these times, and the health and the doctor say so.
	s.Ahead, s.Deliver = 3*time.Hour, nil
	send(90)
	h = r.written(450)
	var ahead query.Paths
	r.ask("/v1/paths?from="+time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)+"&until="+time.Now().Add(4*time.Hour).UTC().Format(time.RFC3339), &ahead)
	if ahead.Packets != 90 {
		t.Errorf("%d packets at the times that nodes reported", ahead.Packets)
	}
	if !strings.Contains(strings.Join(h.Warnings, "\n"), "clocks that are ahead") {
		t.Errorf("%q", h.Warnings)
	}
	if w := doctor.JudgeRunning(&h)[0].Warning; w == nil || w.Code != doctor.ExporterClockWrong || w.Severity != health.Error {
		t.Errorf("%+v", w)
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

// Ten thousand exporters are heard, and what is kept of them is small.
func TestManyExporters(t *testing.T) {
	const exporters = 10_000
	r := run(t, fmt.Sprintf(strings.Replace(file, "[::1]:0", "127.0.0.1:0", 1), t.TempDir()))
	s, err := storetest.NewSender(r.udp)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var message []byte
	s.Deliver = func(_ int, m []byte) error { message = bytes.Clone(m); return nil }
	if err := s.Send(1); err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range exporters {
		dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}}
		conn, err := dialer.Dial("udp", r.udp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(message); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if i%2000 == 1999 { // as fast as it reads
			r.until("messages", func(h *query.Health) bool { return h.Counts["messages"] >= uint64(i+1) })
		}
	}
	h := r.until("all", func(h *query.Health) bool { return len(h.Exporters) == exporters })
	if h.Counts["sessions_refused"] > 0 || h.Counts["socket_dropped"] > 0 || h.Counts["messages"] != exporters || lostAt(&h, "decode", "") > 0 {
		t.Errorf("%v %+v", h.Counts, h.Lost)
	}
	if grown := heap() - before; grown > 100<<20 {
		t.Errorf("%d MB for %d exporters", grown>>20, exporters)
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
