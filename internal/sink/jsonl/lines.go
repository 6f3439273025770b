// SPDX-License-Identifier: Apache-2.0

package jsonl

import "io"

// Lines is a writer of whole lines: a line that could be written only in part, as on a
// full disk, is ended before the next. Counts are of the bytes given. The part of a line stays:
// programs that follow a file read it again from its begin when it shrinks, and others may have
// appended to it or emptied it meanwhile.
type Lines struct {
	to   io.Writer
	torn bool // the last write ended in the middle of a line
}

// NewLines writes to a stream that is at the beginning of a line.
func NewLines(to io.Writer) *Lines { return &Lines{to: to} }

// Write writes lines, each with its end.
func (l *Lines) Write(b []byte) (int, error) {
	if l.torn {
		if _, err := l.to.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		l.torn = false
	}
	n, err := l.to.Write(b)
	l.torn = n > 0 && b[n-1] != '\n'
	return n, err
}
