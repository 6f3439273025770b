// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

// Fault is one error in a file and how to fix it.
type Fault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0 when the error has no place in a file
	Column  int    `json:"column,omitempty"` // from 1
	Path    string `json:"path,omitempty"`   // such as encapsulations[1].options[0].trace.size
	Problem string `json:"problem"`
	Cure    string `json:"cure"`

	Code problem.Code `json:"-"` // for who has another cure
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

// Unwrap is the error without its place, for who shows problem and cure apart.
func (f *Fault) Unwrap() error { return problem.New(f.Problem, f.Cure) }

// Faults are all the errors in a file, in its order.
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
	MostFaults  = 50   // that are listed
	MostCounted = 1000 // that are looked for
	MostText    = 400  // octets of a problem or a cure
)

// Clip shortens a text in its middle.
func Clip(text string) string {
	if len(text) <= MostText {
		return text
	}
	first, last := text[:MostText/2], text[len(text)-MostText/4:]
	left := fmt.Sprintf(" … (%d octets) … ", len(text)-len(first)-len(last))
	return strings.ToValidUTF8(first, "") + left + strings.ToValidUTF8(last, "")
}

func newFault(file, path, problem, cure string) *Fault {
	return &Fault{File: file, Path: Clip(path), Problem: Clip(problem), Cure: Clip(cure)}
}

// Err is nil when there is no error. It lists the first ones and the number of the others.
func (fs Faults) Err() error {
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
	more := len(fs) - MostFaults
	if more <= 0 {
		return fs
	}
	last := *fs[MostFaults-1]
	count := fmt.Sprintf("there are %d more errors", more)
	if more == 1 {
		count = "there is one more error"
	}
	if len(fs) >= MostCounted {
		count = fmt.Sprintf("there are more than %d more errors", MostCounted-MostFaults-1)
	}
	rest := newFault(last.File, "", count, "correct these first")
	rest.Line, rest.Column = last.Line, last.Column
	return append(fs[:MostFaults:MostFaults], rest)
}

// Position is a place in a file; line and column count from 1.
type Position struct{ Line, Column int }

// Source remembers where in a file each value is.
type Source struct {
	file   string
	at     map[string]Position
	format *Format
	root   reflect.Type // of the whole file

	lists  []section // that were read in pieces, and are not in at
	read   *piece    // that was read again to find a value
	inRead *Source   // where its values are, with lines from its first
}

// locate finds the place of the value at path, else of the innermost value around it.
func (s *Source) locate(path string) (Position, bool) {
	if at, ok := s.inPiece(path); ok {
		return at, true
	}
	for {
		if p, ok := s.at[path]; ok {
			return p, true
		}
		if path == "" {
			return Position{}, false
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Fault makes a fault of the value at path. Without a source, it has no place.
func (s *Source) Fault(path, problem, cure string) *Fault {
	if s == nil {
		return newFault("", path, problem, cure)
	}
	f := newFault(s.file, path, problem, cure)
	if p, ok := s.locate(path); ok {
		f.Line, f.Column = p.Line, p.Column
	}
	return f
}
