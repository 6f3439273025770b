// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"fmt"
	"io"
	"sort"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/record"
)

// Encoding appends a record to a buffer, as one or several whole lines.
type Encoding func([]byte, record.Record) []byte

// Text is the encoding that people read, with everything.
func Text(b []byte, r record.Record) []byte { return append(b, r.Text()...) }

// Brief is the encoding for a screen.
func Brief(s columns.Screen) Encoding {
	return func(b []byte, r record.Record) []byte { return append(b, record.Brief(r, s)...) }
}

// Writer is a sink.Writer of lines.
type Writer struct {
	out    *Stream
	file   *following // nil for an open stream
	encode Encoding
	most   int    // bytes of a write, if a record has no more
	faults string // begins what is said about the path

	lines []byte // of the records that are tried
	ends  []int  // of each record in lines
	ahead []byte // the next record, which was encoded and had no room; empty: none
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

// NewWriter writes to an open stream, most bytes at once.
func NewWriter(to io.Writer, encode Encoding, most int) *Writer {
	return &Writer{out: NewStream(NewLines(to)), encode: encode, most: most}
}

// OpenWriter opens a file to append to, or creates it.
func OpenWriter(path string, encode Encoding, most int) (*Writer, error) {
	file, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	f := &following{File: file}
	return &Writer{out: NewStream(f), file: f, encode: encode, most: most}, nil
}

// Fault is why nothing can be written now, as far as the opening tells.
func (w *Writer) Fault() error {
	if w.file == nil {
		return nil
	}
	return w.file.Fault()
}

// Write tries as many records as one write takes. Records whose lines were written completely count
// as written, even if the rest fails.
func (w *Writer) Write(batch []record.Record) (tried, written int, err error) {
	w.lines, w.ends = append(w.lines[:0], w.ahead...), w.ends[:0]
	if len(w.ahead) > 0 {
		w.ahead = w.ahead[:0]
		w.ends = append(w.ends, len(w.lines))
	}
	for _, r := range batch[len(w.ends):] {
		before := len(w.lines)
		if w.lines = w.encode(w.lines, r); before > 0 && len(w.lines) > w.most {
			w.ahead = append(w.ahead, w.lines[before:]...)
			w.lines = w.lines[:before]
			break
		}
		w.ends = append(w.ends, len(w.lines))
	}
	n, err := w.out.Write(w.lines)
	tried = len(w.ends)
	if written = sort.SearchInts(w.ends, n+1); written < tried {
		w.ahead = w.ahead[:0] // they may be tried again first
	}
	if err == nil && w.file != nil && w.file.lost != nil {
		err = fmt.Errorf("%s%w", w.faults, w.file.lost)
	}
	return tried, written, err
}

// End lets no later write wait for a reader that has stopped, beyond a moment.
func (w *Writer) End() { w.out.End() }

// Close closes the file that the Writer opened.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
