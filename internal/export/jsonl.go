// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// jsonlQueue is how many records wait for a slow disk: about 4 MB of them.
const jsonlQueue = 4096

// JSONL appends records to a file, one JSON object per line. It never makes
// the one who offers a record wait.
type JSONL struct {
	path   string
	out    io.Writer
	file   *os.File // nil for standard output
	queue  chan *TraceRecord
	reopen chan struct{}

	written, dropped, failed atomic.Uint64
	fault                    atomic.Pointer[string] // of the last write; nil when it succeeded
}

// Stats is what became of the records that an exporter was offered.
type Stats struct {
	Written uint64
	Dropped uint64 // the queue was full
	Failed  uint64 // could not be written
	Error   string // of the last write, "" when it succeeded
}

// OpenJSONL opens a file to append to; "-" is stdout. Nothing is written
// before Run.
func OpenJSONL(path string, stdout io.Writer) (*JSONL, error) {
	j := &JSONL{path: path, out: stdout, queue: make(chan *TraceRecord, jsonlQueue), reopen: make(chan struct{}, 1)}
	if path == "-" {
		return j, nil
	}
	if err := j.open(); err != nil {
		return nil, err
	}
	return j, nil
}

func (j *JSONL) open() error {
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("export jsonl: %w; name a file in a directory that exists and may be written", err)
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.out = f, f
	return nil
}

// Name says what it is, for people.
func (j *JSONL) Name() string { return "jsonl:" + j.path }

// Offer queues a record, which nobody changes any more.
func (j *JSONL) Offer(r *TraceRecord) {
	select {
	case j.queue <- r:
	default:
		j.dropped.Add(1)
	}
}

// Reopen makes Run open the file's path again, after a rotation.
func (j *JSONL) Reopen() {
	select {
	case j.reopen <- struct{}{}:
	default: // already asked
	}
}

// Run writes until the context ends, then what is queued, and closes the file.
func (j *JSONL) Run(ctx context.Context) {
	w := bufio.NewWriter(j.out)
	var buffered uint64 // records in w
	flush := func() {
		err := w.Flush()
		j.account(buffered, err)
		if buffered = 0; err != nil {
			w.Reset(j.out) // a bufio.Writer stays broken otherwise
		}
	}
	write := func(r *TraceRecord) {
		line, err := json.Marshal(r)
		if err == nil && len(line)+1 > w.Available() {
			flush()
		}
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			j.account(1, err)
			w.Reset(j.out)
			return
		}
		buffered++
	}
	for {
		select {
		case r := <-j.queue:
			write(r)
			for len(j.queue) > 0 {
				write(<-j.queue)
			}
			flush()
		case <-j.reopen:
			if j.file != nil {
				if err := j.open(); err != nil {
					j.setFault(err)
				}
				w.Reset(j.out)
			}
		case <-ctx.Done():
			for len(j.queue) > 0 {
				write(<-j.queue)
			}
			flush()
			j.Close()
			return
		}
	}
}

// Close closes the file of an exporter that does not run.
func (j *JSONL) Close() {
	if j.file != nil {
		j.file.Close()
	}
}

// account counts n records as written, or as failed by err.
func (j *JSONL) account(n uint64, err error) {
	switch {
	case err != nil:
		j.failed.Add(n)
		j.setFault(err)
	case n > 0:
		j.written.Add(n)
		j.fault.Store(nil)
	}
}

func (j *JSONL) setFault(err error) {
	text := err.Error()
	j.fault.Store(&text)
}

// Stats is what happened so far.
func (j *JSONL) Stats() Stats {
	s := Stats{Written: j.written.Load(), Dropped: j.dropped.Load(), Failed: j.failed.Load()}
	if text := j.fault.Load(); text != nil {
		s.Error = *text
	}
	return s
}
