// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"slices"

	"github.com/waymark-net/waymark/internal/instant"
)

// Problem is all warnings of one cause: one line for a person, with its places.
type Problem struct {
	Severity Severity
	Warnings []Warning // the first stands for all; the worst first
}

// family are kinds with one cause: what cures one of them cures the others.
var family = map[Code]Code{MTUTooSmall: MTUBelowMinimum, PathMTULowered: MTUBelowMinimum}

// Problems groups warnings: one problem for each cause, the worst first, then a failed reload, because
// the others are about an older configuration than the file, then the one with the most places.
func Problems(ws []Warning) []Problem {
	var list []Problem
	at := make(map[Code]int)
	for _, w := range ws {
		cause := cmp.Or(family[w.Code], w.Code)
		i, known := at[cause]
		if !known {
			i = len(list)
			at[cause] = i
			list = append(list, Problem{Severity: w.Severity})
		}
		p := &list[i]
		p.Warnings = append(p.Warnings, w)
		if w.Severity.rank() > p.Severity.rank() {
			p.Severity = w.Severity
		}
	}
	for _, p := range list {
		slices.SortStableFunc(p.Warnings, func(a, b Warning) int { // degrees of one cause have one unit
			return cmp.Or(
				cmp.Compare(b.Severity.rank(), a.Severity.rank()),
				cmp.Compare(b.Degree, a.Degree),
				cmp.Compare(a.Code, b.Code),
				cmp.Compare(a.Interface, b.Interface))
		})
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(b.Severity.rank(), a.Severity.rank()),
			cmp.Compare(b.ofReload(), a.ofReload()),
			cmp.Compare(len(b.Warnings), len(a.Warnings)),
			cmp.Compare(a.Warnings[0].Code, b.Warnings[0].Code))
	})
	return list
}

// ofReload is 1 for a reload that failed, else 0.
func (p Problem) ofReload() int {
	if p.Warnings[0].Code == ReloadFailed {
		return 1
	}
	return 0
}

// Interfaces are the interfaces of a problem, each once.
func (p Problem) Interfaces() (names []string) {
	for _, w := range p.Warnings {
		if w.Interface != "" && !slices.Contains(names, w.Interface) {
			names = append(names, w.Interface)
		}
	}
	return names
}

// Since is when the first of its warnings was found.
func (p Problem) Since() (first instant.Time) {
	for _, w := range p.Warnings {
		if first.IsZero() || !w.Since.IsZero() && w.Since.Before(first.Time) {
			first = w.Since
		}
	}
	return first
}
