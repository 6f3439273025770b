// SPDX-License-Identifier: Apache-2.0

// Package jsonl writes records to files, one JSON object per line, or as text.
package jsonl

import (
	"fmt"
	"io"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// Open opens a sink that appends records to a file, one JSON object per line; a relative path starts
// from the working directory, and "-" is stdout. Nothing is written before Run. It does not wait for
// a reader of a named pipe.
//
// room is of records that wait, about 1 kB each: for a slow disk, or, when a write fails, until it can be
// tried again, in their order.
func Open(path string, stdout io.Writer, room *sink.QueueSpace) (*sink.Queued, error) {
	settings := sink.Settings{Name: "jsonl:" + path, QueueSpace: room, Retry: true}
	if path == "-" {
		return sink.NewQueued(NewWriter(stdout, record.AppendLine, buffer), settings), nil
	}
	w, err := OpenWriter(path, record.AppendLine, buffer)
	if err != nil {
		return nil, fmt.Errorf("export jsonl: %w", err)
	}
	w.faults = "export jsonl: "
	settings.Fault = w.Fault()
	return sink.NewQueued(w, settings), nil
}

// buffer is how many bytes of lines are written at once: a pipe takes as many whole.
const buffer = 4096
