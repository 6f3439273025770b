// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/internal/record"
)

// Sieve lets through what a program selects, and counts the records for which its expression
// has no result. One goroutine at a time uses it. A nil sieve lets all through.
type Sieve struct {
	program   *Program
	undecided uint64
	first     string // why, of the first one
}

// NewSieve makes the sieve of a program.
func NewSieve(p *Program) *Sieve { return &Sieve{program: p} }

// Passes reports whether a record is selected.
func (s *Sieve) Passes(r record.Record) bool {
	if s == nil {
		return true
	}
	is, err := s.program.Match(r)
	if err != nil {
		if s.undecided++; s.undecided == 1 {
			s.first, _, _ = strings.Cut(err.Error(), "\n")
		}
	}
	return is
}

// LeftOut says how many records were left out because the expression has no result for them, and
// why the first one was; "" if there were none.
func (s *Sieve) LeftOut() string {
	if s == nil || s.undecided == 0 {
		return ""
	}
	return fmt.Sprintf("%d records are left out because --where has no result for them; the first one: %s", s.undecided, s.first)
}
