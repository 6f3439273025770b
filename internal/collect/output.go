// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/waymark-net/waymark/internal/export"
)

// Writer is an Output: JSON, an object in a line, or text for people.
type Writer struct {
	json  bool
	file  *export.File // nil: a stream that it did not open
	to    *bufio.Writer
	lines *json.Encoder
}

// NewWriter writes to an open stream.
func NewWriter(to io.Writer, asJSON bool) *Writer {
	w := &Writer{json: asJSON, to: bufio.NewWriterSize(to, 1<<16)}
	w.lines = json.NewEncoder(w.to)
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
	if w.file != nil {
		_ = w.file.Follow()
	}
	return told(w.to.Flush())
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
