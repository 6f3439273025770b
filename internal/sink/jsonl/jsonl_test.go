// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

func traceOf(namespace ioam.NamespaceID, source, destination string) *record.Trace {
	return &record.Trace{Namespace: namespace, Nodes: []record.NodeData{},
		Packet: record.Packet{Source: netip.MustParseAddr(source), Destination: netip.MustParseAddr(destination)}}
}

// start runs an exporter; the function it returns ends it.
func start(j *sink.Queued) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { j.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := patience.Of(20 * time.Second) // attempts to reach a collector become rare
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen within %v", what, limit)
}

// namespaces are the namespaces of the records in a file, in order.
func namespaces(t *testing.T, path string) []ioam.NamespaceID {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []ioam.NamespaceID
	for line := range bytes.Lines(b) {
		var r record.Trace
		if err := record.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		list = append(list, r.Namespace)
	}
	return list
}

// If the path cannot be opened, writes continue to the open file, and the error is
// reported until the path can be opened again.
func TestJSONLKeepsWhatItHas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "traces.jsonl")
	j, err := Open(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := start(j)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	j.Offer(traceOf(0, "::1", "::2"))
	waitFor(t, "reporting the error", func() bool {
		s := j.Stats()
		return s.Written == 1 && s.Lost == 0 && s.Error == "export jsonl: open "+path+": no such file or directory" &&
			s.Cure == "name a file in a directory that exists and may be written"
	})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j.Offer(traceOf(1, "::1", "::2"))
	stop()
	if old, now := namespaces(t, filepath.Join(dir+".away", "traces.jsonl")), namespaces(t, path); !slices.Equal(old, []ioam.NamespaceID{0}) ||
		!slices.Equal(now, []ioam.NamespaceID{1}) {
		t.Errorf("the file that is away has the records %v, the new one %v", old, now)
	}
	if s := j.Stats(); s != (sink.Stats{Offered: 2, Written: 2}) {
		t.Errorf("stats %+v, want 2 written", s)
	}
}

// A relative path starts from the working directory.
func TestJSONLRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	j, err := Open("traces.jsonl", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := start(j)
	j.Offer(traceOf(0, "::1", "::2"))
	stop()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := namespaces(t, filepath.Join(dir, "traces.jsonl")); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
}

// brokenWriter fails until it is repaired.
type brokenWriter struct {
	mu       sync.Mutex
	out      bytes.Buffer
	repaired bool
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.repaired {
		return 0, errors.New("no space left on device")
	}
	return w.out.Write(b)
}

func (w *brokenWriter) repair() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.repaired = true
}

func TestJSONLCountsFailuresAndRecovers(t *testing.T) {
	w := &brokenWriter{}
	j, err := Open("-", w, nil)
	if err != nil {
		t.Fatal(err)
	}
	j.Offer(traceOf(1, "::1", "::2"))
	j.Offer(traceOf(2, "::1", "::2"))
	stop := start(j)
	waitFor(t, "failing", func() bool { return j.Stats().Error != "" })
	if s := j.Stats(); s != (sink.Stats{Offered: 2, Error: "no space left on device"}) {
		t.Errorf("stats %+v, want 2 that wait and the reason", s)
	}
	for range queueRoom + 7 {
		j.Offer(traceOf(3, "::1", "::2"))
	}
	all := uint64(2 + queueRoom)
	if s := j.Stats(); s.Dropped != 7 || s.Lost != 0 || s.Waiting() != all {
		t.Errorf("stats %+v, want 7 that had no room", s)
	}
	w.repair()
	waitFor(t, "recovering", func() bool { return j.Stats().Written == all })
	stop()
	if s := j.Stats(); s != (sink.Stats{Offered: all + 7, Written: all, Dropped: 7}) || strings.Count(w.out.String(), "\n") != int(all) {
		t.Errorf("after the repair: stats %+v, %d lines", s, strings.Count(w.out.String(), "\n"))
	}
}

// A full disk that gets room has all records, in their order, when the path leads to it.
func TestJSONLAfterFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	j, err := Open(path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := start(j)
	j.Offer(traceOf(1, "::1", "::2"), traceOf(2, "::1", "::2"))
	waitFor(t, "failing", func() bool { return strings.HasSuffix(j.Stats().Error, "no space left on device") })
	if s := j.Stats(); s.Waiting() != 2 {
		t.Errorf("stats %+v, want 2 that wait", s)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	j.Offer(traceOf(3, "::1", "::2"))
	waitFor(t, "recovering", func() bool { return j.Stats().Written == 3 })
	stop()
	if got := namespaces(t, path); !slices.Equal(got, []ioam.NamespaceID{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	if s := j.Stats(); s != (sink.Stats{Offered: 3, Written: 3}) {
		t.Errorf("stats %+v", s)
	}
}

// fullDisk has a limited number of bytes free.
type fullDisk struct {
	mu   sync.Mutex
	free int
	out  bytes.Buffer
}

func (w *fullDisk) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, _ := w.out.Write(b[:min(len(b), w.free)])
	if w.free -= n; n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (w *fullDisk) clean() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = 1 << 30
}

// A disk that fills up within a line tears that line: complete lines count as written, and the record of
// the torn one is written again, on a new line, with those after it.
func TestJSONLTornLine(t *testing.T) {
	line := record.AppendJSON(nil, traceOf(1, "::1", "::2"))
	w := &fullDisk{free: 2*(len(line)+1) + len(line)/2}
	j, err := Open("-", w, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		j.Offer(traceOf(1, "::1", "::2"))
	}
	stop := start(j)
	waitFor(t, "failing", func() bool { return j.Stats().Error != "" })
	if s := j.Stats(); s.Written != 2 || s.Waiting() != 2 {
		t.Errorf("stats %+v, want 2 written and 2 that wait", s)
	}
	w.clean()
	j.Offer(traceOf(2, "::1", "::2"))
	waitFor(t, "recovering", func() bool { return j.Stats().Waiting() == 0 })
	stop()
	whole := 0
	for l := range strings.Lines(w.out.String()) {
		if r, err := record.Parse([]byte(l)); err == nil && r != nil {
			whole++
		}
	}
	if s := j.Stats(); whole != int(s.Written) || s.Written != 5 || s.Lost != 0 {
		t.Errorf("%d whole lines of %+v in %q", whole, s, w.out.String())
	}
}

// The same holds for a partial line that was already in the file.
func TestJSONLTornFile(t *testing.T) {
	for _, before := range []string{"", "{}\n", "{}\n{\"ki"} {
		path := filepath.Join(t.TempDir(), "records")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		j.Offer(traceOf(1, "::1", "::2"))
		start(j)()
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := before
		if strings.HasSuffix(before, "i") {
			want += "\n"
		}
		rest, found := strings.CutPrefix(string(got), want)
		if _, err := record.Parse([]byte(rest)); !found || err != nil {
			t.Errorf("%q became %q (%v)", before, got, err)
		}
	}
}

var queueRoom = (*sink.QueueSpace)(nil).Records()

func TestJSONLQueueIsBounded(t *testing.T) {
	var out bytes.Buffer
	j, err := Open("-", &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := traceOf(1, "::1", "::2")
	for range queueRoom + 7 {
		j.Offer(r)
	}
	start(j)()
	if s := j.Stats(); s != (sink.Stats{Offered: uint64(queueRoom + 7), Written: uint64(queueRoom), Dropped: 7}) ||
		strings.Count(out.String(), "\n") != queueRoom {
		t.Errorf("stats %+v, want %d written and 7 dropped", s, queueRoom)
	}
}

func TestJSONLRefusesAMissingDirectory(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "missing", "x"), nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "export jsonl: open ") ||
		!strings.Contains(err.Error(), "name a file in a directory that exists") {
		t.Errorf("error %v, want one with a cure", err)
	}
}
