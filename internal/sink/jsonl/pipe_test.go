// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/sink"
)

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openReader reads a pipe without waiting for a writer.
func openReader(t *testing.T, path string) *os.File {
	t.Helper()
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Readers of a named pipe come and go: each gets what is written while it reads, and nothing waits.
func TestNamedPipe(t *testing.T) {
	path := newPipe(t)
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(text string, want error) {
		t.Helper()
		if _, _, err := f.Append([]byte(text)); !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if !errors.Is(f.Fault(), ErrUnread) {
		t.Errorf("without a reader: %v", f.Fault())
	}
	write("one\n", ErrUnread)
	for _, text := range []string{"two\n", "three\n"} {
		r := openReader(t, path)
		write(text, nil)
		got := make([]byte, 100)
		if n, err := r.Read(got); err != nil || string(got[:n]) != text {
			t.Errorf("read %q, %v; want %q", got[:n], err, text)
		}
		r.Close()
		write("lost\n", ErrUnread)
	}
	if _, err := OpenFile(filepath.Join(path, "x")); err == nil || errors.Is(err, ErrUnread) {
		t.Errorf("below a pipe: %v", err)
	}
}

// A sink of a pipe without a reader says so at once, keeps records for one, ends at once, and loses nothing
// uncounted.
func TestSinkOfNamedPipe(t *testing.T) {
	path := newPipe(t)
	j, err := Open(path, io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); !strings.HasSuffix(s.Error, "no process reads this named pipe") || s.Cure != "start one that does, or name a file" {
		t.Errorf("before the first record: %+v", s)
	}
	stop := start(j)
	j.Offer(traceOf(1, "2001:db8::1", "2001:db8::2"))
	r := openReader(t, path)
	j.Offer(traceOf(2, "2001:db8::1", "2001:db8::2"))
	waitFor(t, "the records", func() bool { return j.Stats().Written == 2 })
	if s := j.Stats(); s.Error != "" {
		t.Errorf("with a reader: %+v", s)
	}
	r.Close()
	began := time.Now()
	if stop(); time.Since(began) > patience.Of(time.Second) {
		t.Errorf("the end took %v", time.Since(began))
	}
}

// A reader that stops keeps neither those who offer nor the end waiting.
func TestSinkOfStoppedReader(t *testing.T) {
	path := newPipe(t)
	openReader(t, path) // it reads nothing
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	for name, open := range map[string]func() (*sink.Queued, error){
		"named pipe":      func() (*sink.Queued, error) { return Open(path, io.Discard, nil) },
		"standard output": func() (*sink.Queued, error) { return Open("-", blocking{out}, nil) },
	} {
		j, err := open()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.Run(ctx) }()
		began := time.Now()
		for range 3 * new(sink.QueueSpace).Records() {
			j.Offer(traceOf(1, "2001:db8::1", "2001:db8::2"))
		}
		waitFor(t, "a full queue", func() bool { j.Offer(traceOf(1, "2001:db8::1", "2001:db8::2")); return j.Stats().Dropped > 0 })
		cancel()
		select {
		case <-done:
		case <-time.After(patience.Of(lastWrite + 3*time.Second)):
			t.Fatalf("%s: it has not ended %v after its start", name, time.Since(began))
		}
		if s := j.Stats(); s.Written+s.Missed() != s.Offered || !strings.Contains(s.Error, ErrStuck.Error()) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// blocking hides that a pipe of this process could be closed: standard output is not.
type blocking struct{ to *os.File }

func (b blocking) Write(p []byte) (int, error) { return b.to.Write(p) }

// A stream writes as any other until it ends, and what its writers do with their buffer afterwards does
// not change what arrives.
func TestStream(t *testing.T) {
	in, out := io.Pipe()
	s := NewStream(out)
	buffer := []byte("first")
	go func() {
		_, _ = s.Write(buffer)
		copy(buffer, "other")
		s.End()
		_, _ = s.Write(buffer)
		if n, err := s.Write(buffer); n != 0 || !errors.Is(err, ErrStuck) {
			t.Errorf("after a write that did not end: %d, %v", n, err)
		}
		out.Close()
	}()
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	time.Sleep(lastWrite + 500*time.Millisecond)
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "" && string(rest) != "other" {
		t.Errorf("%q, %v", rest, err)
	}
}

// A reader that is slow, but reads, gets all after the end; one that has stopped loses what is left in
// the time of one write.
func TestStreamToSlowReader(t *testing.T) {
	t.Parallel()
	const writes, pause = 5, lastWrite / 4 // in all longer than one write may take
	in, out := io.Pipe()
	s := NewStream(out)
	s.End()
	read := make(chan int, 1)
	go func() {
		n, line := 0, make([]byte, 5)
		for ; n < writes; n++ {
			time.Sleep(pause)
			if _, err := io.ReadFull(in, line); err != nil {
				break
			}
		}
		read <- n
	}()
	for i := range writes {
		if n, err := s.Write([]byte("line\n")); n != 5 || err != nil {
			t.Errorf("write %d: %d, %v", i, n, err)
		}
	}
	if n := <-read; n != writes {
		t.Errorf("%d of %d lines were read", n, writes)
	}
	began := time.Now()
	if n, err := s.Write([]byte("line\n")); n != 0 || !errors.Is(err, ErrStuck) {
		t.Errorf("to a reader that has stopped: %d, %v", n, err)
	}
	if took := time.Since(began); took < lastWrite/2 || took > patience.Of(2*lastWrite) {
		t.Errorf("that took %v", took)
	}
}
