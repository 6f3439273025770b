// SPDX-License-Identifier: Apache-2.0

// Package jsonl writes records to files, one JSON object per line.
package jsonl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// Sink appends records to a File, one JSON object per line. It never makes the
// caller of Offer wait.
type Sink struct {
	path  string
	out   *Stream
	file  *following // nil for standard output
	queue *sink.Queue

	lines    []byte // to be written, each with its end
	buffered uint64 // number of lines

	offered, written, dropped, failed atomic.Uint64
	fault                             atomic.Pointer[string] // of the last write; nil when it succeeded
}

// Open opens a file to append to, a relative path from the working
// directory; "-" is stdout. Nothing is written before Run. It does not wait for a reader of a
// named pipe.
//
// room is of records that wait for a slow disk, about 1 kB each.
func Open(path string, stdout io.Writer, room *sink.Room) (*Sink, error) {
	j := &Sink{path: path, queue: sink.NewQueue(room)}
	if path == "-" {
		j.out = NewStream(NewLines(stdout))
		return j, nil
	}
	file, err := OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("export jsonl: %w", err)
	}
	j.file = &following{File: file}
	j.out = NewStream(j.file)
	if err := file.Fault(); err != nil {
		j.setFault(err)
	}
	return j, nil
}

// following is a file that a Stream writes to. Each write follows the path before.
type following struct {
	*File
	lost error // why the path could not be followed; of the stream while it writes
}

func (f *following) Write(b []byte) (n int, err error) {
	n, f.lost, err = f.File.Append(b)
	return n, err
}

// Name is the sink's name in status and metrics.
func (j *Sink) Name() string { return "jsonl:" + j.path }

// Offer queues records.
func (j *Sink) Offer(records ...record.Record) {
	j.offered.Add(uint64(len(records)))
	for _, r := range records {
		if !j.queue.Put(record.Retain(r)) {
			j.dropped.Add(1)
		}
	}
}

// Run writes until the context ends, then writes the queued records and closes the
// file. What is not written two seconds later, because a reader has stopped, is lost.
func (j *Sink) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, j.out.End)()
	for {
		select {
		case <-j.queue.Ready():
			j.writeQueued()
		case <-ctx.Done():
			j.writeQueued()
			j.Close()
			return
		}
	}
}

// writeQueued writes the queued records.
func (j *Sink) writeQueued() {
	var list []record.Record
	for {
		if list = j.queue.Take(list); len(list) == 0 {
			break
		}
		for _, r := range list {
			j.write(r)
		}
	}
	j.flush()
}

// buffer is how many bytes of lines are written at once.
const buffer = 4096

func (j *Sink) write(r record.Record) {
	before := len(j.lines)
	j.lines = record.AppendLine(j.lines, r)
	if before > 0 && len(j.lines) > buffer {
		line := j.lines[before:]
		j.lines = j.lines[:before]
		j.flush()
		j.lines = append(j.lines, line...)
	}
	j.buffered++
}

// flush writes the buffered lines. Lines written completely count as written, even if
// the rest fails.
func (j *Sink) flush() {
	if j.buffered == 0 {
		return
	}
	n, err := j.out.Write(j.lines)
	var lost error
	if j.file != nil && err == nil {
		lost = j.file.lost
	}
	whole := uint64(bytes.Count(j.lines[:n], newline))
	j.written.Add(whole)
	j.failed.Add(j.buffered - whole)
	j.lines, j.buffered = j.lines[:0], 0
	switch {
	case err != nil:
		j.setFault(err)
	case lost != nil:
		j.setFault(fmt.Errorf("export jsonl: %w", lost))
	default:
		j.fault.Store(nil)
	}
}

var newline = []byte{'\n'}

// Close closes the file of an exporter that does not run.
func (j *Sink) Close() {
	if j.file != nil {
		j.file.Close()
	}
}

func (j *Sink) setFault(err error) {
	text := err.Error()
	j.fault.Store(&text)
}

// Stats is what happened so far.
func (j *Sink) Stats() sink.Stats {
	s := sink.Stats{Offered: j.offered.Load(), Written: j.written.Load(), Dropped: j.dropped.Load(),
		Lost: j.failed.Load()}
	if text := j.fault.Load(); text != nil {
		s.Error = *text
	}
	return s
}
