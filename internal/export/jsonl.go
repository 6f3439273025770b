// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
)

// jsonlQueue is how many records wait for a slow disk: about 4 MB of them.
const jsonlQueue = 4096

// JSONL appends records to a File, one JSON object per line. It never makes the
// one who offers a record wait.
type JSONL struct {
	path  string
	out   io.Writer
	file  *File // nil for standard output
	queue chan Record

	lines    []byte // to be written, each with its end
	buffered uint64 // how many

	offered, written, dropped, failed, unencodable atomic.Uint64
	fault                                          atomic.Pointer[string] // of the last write; nil when it succeeded
}

// Stats is what became of the records that an exporter was offered. A trace that
// is exported as IPFIX is a record for each node. What is not yet Written, or
// lost for one of the causes, is on its way.
type Stats struct {
	Offered     uint64
	Written     uint64
	Dropped     uint64 // the queue was full
	Lost        uint64 // could not be written, or the connection to the collector was lost
	Unencodable uint64 // cannot be encoded
	Error       string // of the last attempt, "" when it succeeded

	// Of exporters over the network.
	Messages  uint64
	Octets    uint64
	Unsure    uint64 // of Written at most: a connection broke, and the collector may not have read them
	Connected bool
	Cure      string // of Error
}

// Waiting is how many records are on their way.
func (s Stats) Waiting() uint64 { return s.Offered - min(s.Offered, s.Written+s.Missed()) }

// Missed is how many records were not written.
func (s Stats) Missed() uint64 { return s.Dropped + s.Lost + s.Unencodable }

// OpenJSONL opens a file to append to, a relative path from the working
// directory; "-" is stdout. Nothing is written before Run.
func OpenJSONL(path string, stdout io.Writer) (*JSONL, error) {
	j := &JSONL{path: path, out: NewLines(stdout), queue: make(chan Record, jsonlQueue)}
	if path == "-" {
		return j, nil
	}
	file, err := OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("export jsonl: %w", err)
	}
	j.file, j.out = file, file
	return j, nil
}

// Name says what it is, for people.
func (j *JSONL) Name() string { return "jsonl:" + j.path }

// Offer queues a record, which nobody changes any more.
func (j *JSONL) Offer(r Record) {
	j.offered.Add(1)
	select {
	case j.queue <- r:
	default:
		j.dropped.Add(1)
	}
}

// Run writes until the context ends, then what is queued, and closes the file.
func (j *JSONL) Run(ctx context.Context) {
	for {
		select {
		case r := <-j.queue:
			j.write(r)
			for len(j.queue) > 0 {
				j.write(<-j.queue)
			}
			j.flush()
		case <-ctx.Done():
			for len(j.queue) > 0 {
				j.write(<-j.queue)
			}
			j.flush()
			j.Close()
			return
		}
	}
}

// jsonlBuffer is how many bytes of lines are written at once.
const jsonlBuffer = 4096

func (j *JSONL) write(r Record) {
	line, err := json.Marshal(r)
	if err != nil {
		j.unencodable.Add(1)
		j.setFault(err)
		return
	}
	if len(j.lines)+len(line)+1 > jsonlBuffer {
		j.flush()
	}
	j.lines = append(append(j.lines, line...), '\n')
	j.buffered++
}

// flush writes the lines that wait. Those that are whole are written, whatever
// becomes of the others.
func (j *JSONL) flush() {
	if j.buffered == 0 {
		return
	}
	var lost error
	if j.file != nil {
		lost = j.file.Follow()
	}
	n, err := j.out.Write(j.lines)
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
func (j *JSONL) Close() {
	if j.file != nil {
		j.file.Close()
	}
}

func (j *JSONL) setFault(err error) {
	text := err.Error()
	j.fault.Store(&text)
}

// Stats is what happened so far.
func (j *JSONL) Stats() Stats {
	s := Stats{Offered: j.offered.Load(), Written: j.written.Load(), Dropped: j.dropped.Load(),
		Lost: j.failed.Load(), Unencodable: j.unencodable.Load()}
	if text := j.fault.Load(); text != nil {
		s.Error = *text
	}
	return s
}
