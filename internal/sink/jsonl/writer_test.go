// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
)

// line is a record whose JSON has a text.
func line(s string) record.Record { return &record.Warning{Code: s} }

func lineOf(s string) string { return string(record.AppendLine(nil, line(s))) }

func writeAll(t *testing.T, w *Writer, batch ...record.Record) {
	t.Helper()
	for len(batch) > 0 {
		tried, written, err := w.Write(batch)
		if err != nil || written != tried || tried == 0 {
			t.Fatalf("tried %d, wrote %d: %v", tried, written, err)
		}
		batch = batch[tried:]
	}
}

// A file that was renamed or removed is made again; where that is not possible, writes
// continue to the open one, with an error.
func TestWriterFollowsRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "paths")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "paths.jsonl")
	w, err := OpenWriter(path, record.AppendLine, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	writeAll(t, w, line("one"))
	rename(path, path+".1")
	writeAll(t, w, line("two"))
	rename(dir, dir+".away")
	if tried, written, err := w.Write([]record.Record{line("three")}); tried != 1 || written != 1 || err == nil {
		t.Errorf("%d, %d, %v", tried, written, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"paths.jsonl.1": lineOf("one"), "paths.jsonl": lineOf("two") + lineOf("three")} {
		if got, err := os.ReadFile(filepath.Join(dir+".away", name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := OpenWriter(filepath.Join(dir, "missing", "x"), Text, 1); err == nil ||
		!strings.HasPrefix(err.Error(), "open ") || !strings.Contains(err.Error(), "name a file in a directory that exists") {
		t.Errorf("a directory that is missing: %v", err)
	}
}

// However much waits, a file that was rotated ends with a whole line, and the next
// one begins with one.
func TestWriterKeepsLinesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "paths.jsonl")
	const most, count = 1 << 12, 64
	w, err := OpenWriter(path, record.AppendLine, most)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 1000)
	batch := make([]record.Record, count)
	for i := range batch {
		batch[i] = line(text)
	}
	writeAll(t, w, batch[:count/2]...)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	writeAll(t, w, batch[count/2:]...)
	lines := 0
	for _, p := range []string{path + ".1", path} {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			if lines++; l != lineOf(text) {
				t.Fatalf("line %d, in %s, has %d bytes", lines, filepath.Base(p), len(l))
			}
		}
	}
	if lines != count {
		t.Errorf("%d lines, want %d", lines, count)
	}
}

// What a write took only in part is written again whole, on a line of its own.
func TestWriterTriesAgain(t *testing.T) {
	size := len(lineOf("a"))
	disk := &fullDisk{free: 2*size + size/2}
	w := NewWriter(disk, record.AppendLine, 3*size)
	batch := []record.Record{line("a"), line("b"), line("c"), line("d")}
	if tried, written, err := w.Write(batch); tried != 3 || written != 2 || err == nil {
		t.Fatalf("tried %d, wrote %d: %v", tried, written, err)
	}
	disk.clean()
	writeAll(t, w, batch[2:]...)
	want := lineOf("a") + lineOf("b") + lineOf("c")[:size/2] + "\n" + lineOf("c") + lineOf("d")
	if got := disk.out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
