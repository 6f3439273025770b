// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/waymark-net/waymark/internal/export"
)

// writeAt is how many bytes wait for one call of the kernel.
const writeAt = 1 << 16

// Writer is an Output: JSON, an object in a line, or text for people.
type Writer struct {
	json    bool
	to      io.Writer
	file    *export.File // to, unless that is a stream that it did not open
	waiting bytes.Buffer // whole events
	lines   *json.Encoder
}

// NewWriter writes to an open stream.
func NewWriter(to io.Writer, asJSON bool) *Writer {
	w := &Writer{json: asJSON, to: to}
	w.lines = json.NewEncoder(&w.waiting)
	w.lines.SetEscapeHTML(false)
	return w
}

// OpenWriter appends to a file, which follows its path.
func OpenWriter(path string, asJSON bool) (*Writer, error) {
	file, err := export.OpenFile(path)
	if err != nil {
		return nil, told(err)
	}
	w := NewWriter(file, asJSON)
	w.file = file
	return w, nil
}

// Write writes an event; what is written may wait for Flush.
func (w *Writer) Write(e Event) error {
	if !w.json {
		w.waiting.WriteString(e.Text())
	} else if err := w.lines.Encode(e); err != nil {
		return told(err)
	}
	if w.waiting.Len() < writeAt {
		return nil
	}
	return w.Flush()
}

// Flush writes what waits. Where the path leads nowhere now, the open file is
// written on.
func (w *Writer) Flush() error {
	if w.waiting.Len() == 0 {
		return nil
	}
	if w.file != nil {
		_ = w.file.Follow()
	}
	_, err := w.to.Write(w.waiting.Bytes())
	w.waiting.Reset()
	return told(err)
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
