// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"time"
)

// lastInput is how long input is still read after an interruption: the program that
// writes into a pipe is interrupted too, and may write its last output.
const lastInput = time.Second

// input is a reader that ends at an interruption, even while it waits for more.
type input struct {
	ctx         context.Context
	in          io.Reader
	chunks      chan chunk // nil until the first Read
	done        chan struct{}
	now         chunk
	last        <-chan time.Time // nil until the interruption is seen
	interrupted bool             // the interruption has ended the input
}

// chunk is the result of one Read.
type chunk struct {
	data []byte
	err  error
}

// openInput opens a file to read. A named pipe waits for a program that writes into it, or for an
// interruption.
func openInput(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(name)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newInput(ctx context.Context, in io.Reader) *input {
	return &input{ctx: ctx, in: in, done: make(chan struct{})}
}

// Close stops reading the input, but does not close it.
func (r *input) Close() error {
	close(r.done)
	return nil
}

// Read returns the context's error when it ended before the input did.
func (r *input) Read(p []byte) (int, error) {
	if r.chunks == nil {
		r.chunks = make(chan chunk)
		go r.fill()
	}
	for len(r.now.data) == 0 {
		if r.now.err != nil {
			return 0, r.now.err
		}
		r.now = r.next()
	}
	n := copy(p, r.now.data)
	r.now.data = r.now.data[n:]
	return n, nil
}

func (r *input) next() chunk {
	if r.last == nil {
		select {
		case c := <-r.chunks:
			return c
		case <-r.ctx.Done():
			r.last = time.After(lastInput)
		}
	}
	select {
	case c := <-r.chunks:
		return c
	case <-r.last:
		r.interrupted = true
		return chunk{err: r.ctx.Err()}
	}
}

// fill reads chunks from the input. A read that never returns keeps the goroutine until
// the program ends.
func (r *input) fill() {
	for {
		data := make([]byte, 1<<16)
		n, err := r.in.Read(data)
		select {
		case r.chunks <- chunk{data[:n], err}:
		case <-r.done:
			return
		}
		if err != nil {
			return
		}
	}
}
