// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"io"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
)

// writeAt is how many bytes are buffered before a write.
const writeAt = 1 << 16

// Writer is an Output that writes JSON lines or readable text.
type Writer struct {
	json    bool
	to      io.Writer
	file    *jsonl.File // same as to; nil when to is a stream that the Writer did not open
	waiting []byte      // whole records
}

// NewWriter writes to an open stream.
func NewWriter(to io.Writer, asJSON bool) *Writer {
	return &Writer{json: asJSON, to: to}
}

// OpenWriter appends to a file, and reopens it when its path names another one.
func OpenWriter(path string, asJSON bool) (*Writer, error) {
	file, err := jsonl.OpenFile(path)
	if err != nil {
		return nil, told(err)
	}
	w := NewWriter(file, asJSON)
	w.file = file
	return w, nil
}

// Write writes a record, which may be buffered until Flush.
func (w *Writer) Write(r record.Record) error {
	if w.json {
		w.waiting = record.AppendLine(w.waiting, r)
	} else {
		w.waiting = append(w.waiting, r.Text()...)
	}
	if len(w.waiting) < writeAt {
		return nil
	}
	return w.Flush()
}

// Flush writes what is buffered. If the path cannot be opened now, it keeps writing to
// the open file.
func (w *Writer) Flush() error {
	if len(w.waiting) == 0 {
		return nil
	}
	if w.file != nil {
		_ = w.file.Follow()
	}
	_, err := w.to.Write(w.waiting)
	w.waiting = w.waiting[:0]
	return told(err)
}

// Close closes the file that the Writer opened.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	return told(w.file.Close())
}

func told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write records: %w", err)
}
