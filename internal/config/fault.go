// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one error in a configuration and how to fix it.
type Fault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0 when the error has no place in a file
	Column  int    `json:"column,omitempty"` // from 1
	Path    string `json:"path,omitempty"`   // such as encapsulations[1].options[0].trace.size
	Problem string `json:"problem"`
	Cure    string `json:"cure"`
}

// Error is "FILE:LINE:COLUMN: problem; cure".
func (f *Fault) Error() string {
	var b strings.Builder
	switch {
	case f.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	case f.File != "":
		b.WriteString(f.File + ": ")
	}
	b.WriteString(f.Problem)
	if f.Cure != "" {
		b.WriteString("; " + f.Cure)
	}
	return b.String()
}

// Faults are all the errors in a configuration, in the file's order.
type Faults []*Fault

// Error has one line per fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single errors, for errors.As.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f
	}
	return errs
}

// Bounds of what is said about a file: a large one may have an error in every line, or one line
// that is a text of megabytes.
const (
	mostFaults  = 50   // that are listed
	mostCounted = 1000 // that are looked for
	mostText    = 400  // characters of a problem or a cure
)

// clip shortens a text in its middle.
func clip(text string) string {
	if len(text) <= mostText {
		return text
	}
	first, last := text[:mostText/2], text[len(text)-mostText/4:]
	return strings.ToValidUTF8(first, "") + fmt.Sprintf(" … (%d octets) … ", len(text)-len(first)-len(last)) + strings.ToValidUTF8(last, "")
}

func newFault(file, path, problem, cure string) *Fault {
	return &Fault{File: file, Path: clip(path), Problem: clip(problem), Cure: clip(cure)}
}

// err is nil when there is no error. It lists the first ones and the number of the others.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b *Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return fs.first()
}

// first are the first errors, then one that counts the others.
func (fs Faults) first() Faults {
	more := len(fs) - mostFaults
	if more <= 0 {
		return fs
	}
	last := *fs[mostFaults-1]
	count := fmt.Sprintf("there are %d more errors", more)
	if more == 1 {
		count = "there is one more error"
	}
	if len(fs) >= mostCounted {
		count = fmt.Sprintf("there are more than %d more errors", mostCounted-mostFaults-1)
	}
	rest := newFault(last.File, "", count, "correct these first")
	rest.Line, rest.Column = last.Line, last.Column
	return append(fs[:mostFaults:mostFaults], rest)
}

// position is a place in a file; line and column count from 1.
type position struct{ line, column int }

// source remembers where in a file each value of a configuration is.
type source struct {
	file string
	at   map[string]position

	lists  []section // that were read in pieces, and are not in at
	read   *piece    // that was read again to find a value
	inRead *source   // where its values are, with lines from its first
}

// locate finds the place of the value at path, else of the innermost value around it.
func (s *source) locate(path string) (position, bool) {
	if at, ok := s.inPiece(path); ok {
		return at, true
	}
	for {
		if p, ok := s.at[path]; ok {
			return p, true
		}
		if path == "" {
			return position{}, false
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// fault makes a Fault for the value at path.
func (s *source) fault(path, problem, cure string) *Fault {
	if s == nil {
		return newFault("", path, problem, cure)
	}
	f := newFault(s.file, path, problem, cure)
	if p, ok := s.locate(path); ok {
		f.Line, f.Column = p.line, p.column
	}
	return f
}
