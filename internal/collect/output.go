// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
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
	to      *jsonl.Stream
	file    *jsonl.File // that the stream writes to; nil when the Writer did not open it
	note    func(string)
	waiting []byte // whole records
	records uint64 // their number
	unread  uint64 // records that were lost since a named pipe has no reader
}

// NewWriter writes to an open stream.
func NewWriter(to io.Writer, asJSON bool) *Writer {
	return &Writer{json: asJSON, to: jsonl.NewStream(to)}
}

// OpenWriter appends to a file, and reopens it when its path names another one. A named pipe that no
// process reads is no error: note is told when records are lost for that, and when no longer.
func OpenWriter(path string, asJSON bool, note func(string)) (*Writer, error) {
	file, err := jsonl.OpenFile(path)
	if err != nil {
		return nil, told(err)
	}
	w := NewWriter(appending{file}, asJSON)
	w.file, w.note = file, note
	if err := file.Fault(); err != nil {
		note(lost(err))
	}
	return w, nil
}

// appending is a file that is followed before each write. If its path cannot be opened now, writes
// go to the open file.
type appending struct{ file *jsonl.File }

func (a appending) Write(b []byte) (n int, err error) {
	n, _, err = a.file.Append(b)
	return n, err
}

func lost(err error) string { return fmt.Sprintf("%v; records are lost until then", err) }

// End lets no later write wait for a reader that has stopped, beyond a moment.
func (w *Writer) End() { w.to.End() }

// Write writes a record, which may be buffered until Flush.
func (w *Writer) Write(r record.Record) error {
	if w.json {
		w.waiting = record.AppendLine(w.waiting, r)
	} else {
		w.waiting = append(w.waiting, r.Text()...)
	}
	w.records++
	if len(w.waiting) < writeAt {
		return nil
	}
	return w.Flush()
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if len(w.waiting) == 0 {
		return nil
	}
	_, err := w.to.Write(w.waiting)
	count := w.records
	w.waiting, w.records = w.waiting[:0], 0
	switch {
	case w.note != nil && errors.Is(err, jsonl.ErrUnread):
		if w.unread == 0 {
			w.note(lost(err))
		}
		w.unread += count
		return nil
	case err == nil && w.unread > 0:
		w.note(fmt.Sprintf("a process reads the output again; %d records were lost before", w.unread))
		w.unread = 0
	}
	return told(err)
}

// Close closes the file that the Writer opened. It is an error that records were lost at the end.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	if w.unread > 0 {
		err = errors.Join(err, fmt.Errorf("%d were lost: %w", w.unread, jsonl.ErrUnread))
	}
	return told(err)
}

func told(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write records: %w", err)
}
