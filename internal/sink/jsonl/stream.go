// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// Once the stream is to end, a write may take lastWrite, and all of them lastWrites: a reader that
// goes on reading slowly gets what is left.
const (
	lastWrite  = 2 * time.Second
	lastWrites = 10 * time.Second
)

// ErrStuck is the error of a write that did not end in time after the stream was to end, and of all
// later ones.
var ErrStuck = errors.New("the reader of this output has stopped; what it has not read is lost")

// Stream writes to what may take no more: a pipe, a terminal or a disk that waits. A write waits for
// it, but not after End. One goroutine may write.
type Stream struct {
	to       io.Writer
	ending   chan struct{} // closed when the stream is to end
	deadline time.Time     // of all writes, from then on
	stuck    bool          // a write has not ended
}

// NewStream makes a stream that writes to w.
func NewStream(w io.Writer) *Stream { return &Stream{to: w, ending: make(chan struct{})} }

// End gives the stream a moment to end. It is called once, by any goroutine, and does not wait.
func (s *Stream) End() {
	s.deadline = time.Now().Add(lastWrites)
	close(s.ending)
}

type written struct {
	n   int
	err error
}

func (s *Stream) Write(b []byte) (int, error) {
	if s.stuck {
		return 0, ErrStuck
	}
	own, done := bytes.Clone(b), make(chan written, 1) // the caller's buffer may change before it ends
	go func() {
		n, err := s.to.Write(own)
		done <- written{n, err}
	}()
	select {
	case w := <-done:
		return w.n, w.err
	case <-s.ending:
	}
	select {
	case w := <-done:
		return w.n, w.err
	case <-time.After(min(lastWrite, time.Until(s.deadline))):
	}
	select {
	case w := <-done:
		return w.n, w.err
	default:
		s.stuck = true
		return 0, ErrStuck
	}
}
