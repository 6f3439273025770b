// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Writer is an Output: JSON, an object in a line, or text for people.
type Writer struct {
	json   bool
	path   string // "": not a file that it opened
	file   *os.File
	target io.Writer
	to     *bufio.Writer
	lines  *json.Encoder
}

// NewWriter writes to an open stream.
func NewWriter(to io.Writer, asJSON bool) *Writer {
	w := &Writer{json: asJSON, target: to}
	w.to = bufio.NewWriterSize(target{w}, 1<<16)
	w.lines = json.NewEncoder(w.to)
	w.lines.SetEscapeHTML(false)
	return w
}

// OpenWriter appends to a file. It follows the path: a file that was renamed or
// removed is made anew, so that rotation needs no signal.
func OpenWriter(path string, asJSON bool) (*Writer, error) {
	w := NewWriter(nil, asJSON)
	w.path = path
	return w, w.open()
}

// target writes to what is open now.
type target struct{ *Writer }

func (t target) Write(b []byte) (int, error) { return t.target.Write(b) }

func (w *Writer) open() error {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("write records: %w; name a file in a directory that exists and may be written", err)
	}
	if w.file != nil {
		w.file.Close()
	}
	w.file, w.target = f, f
	return nil
}

// Write writes an event; what is written may wait for Flush.
func (w *Writer) Write(e Event) (err error) {
	if w.json {
		err = w.lines.Encode(e)
	} else {
		_, err = w.to.WriteString(e.Text())
	}
	return told(err)
}

// Flush writes what waits. Where the path leads nowhere now, the open file is
// written on.
func (w *Writer) Flush() error {
	if w.to.Buffered() == 0 {
		return nil
	}
	if w.path != "" && w.moved() {
		_ = w.open()
	}
	return told(w.to.Flush())
}

// moved tells whether the path no longer leads to the open file.
func (w *Writer) moved() bool {
	there, err := os.Stat(w.path)
	if err != nil {
		return true
	}
	open, err := w.file.Stat()
	return err == nil && !os.SameFile(there, open)
}

// Close closes a file that it opened.
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
