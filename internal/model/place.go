// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"strings"
)

// PlaceKind says what a Place is relative to.
type PlaceKind uint8

const (
	// PlaceFirst is before all other programs.
	PlaceFirst PlaceKind = iota
	// PlaceLast is after all other programs.
	PlaceLast
	// PlaceBefore is before the programs with a name.
	PlaceBefore
	// PlaceAfter is after the programs with a name.
	PlaceAfter
)

// Place is where a program stands among the programs of others on a hook of the kernel.
// The zero value is the first.
type Place struct {
	Kind    PlaceKind
	Program string // of PlaceBefore and PlaceAfter: a program's name
}

// The kernel keeps the first 15 characters of a program's name; tools that read BTF show
// all of them.
const (
	programNameKept = 15
	programNameMost = 127
)

// ParsePlace reads first, last, before NAME or after NAME.
func ParsePlace(text string) (Place, error) {
	switch text {
	case "first":
		return Place{Kind: PlaceFirst}, nil
	case "last":
		return Place{Kind: PlaceLast}, nil
	}
	word, name, _ := strings.Cut(text, " ")
	kind, ok := map[string]PlaceKind{"before": PlaceBefore, "after": PlaceAfter}[word]
	if !ok {
		return Place{}, fmt.Errorf("%q is not a place", text)
	}
	if len(name) < 1 || len(name) > programNameMost || strings.ContainsFunc(name, notInProgramName) {
		return Place{}, fmt.Errorf("%q cannot be the name of a BPF program", name)
	}
	return Place{Kind: kind, Program: name}, nil
}

// notInProgramName is the kernel's own rule (bpf_obj_name_cpy).
func notInProgramName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '.'
}

func (p Place) String() string {
	switch p.Kind {
	case PlaceLast:
		return "last"
	case PlaceBefore:
		return "before " + p.Program
	case PlaceAfter:
		return "after " + p.Program
	}
	return "first"
}

func (p Place) names(program string) bool { return kept(program) == kept(p.Program) }

func kept(name string) string { return name[:min(len(name), programNameKept)] }

// Seat is where a program with this place goes among others, in the order in which they
// run: the number of those that run before it. Without the named program it is the first.
func (p Place) Seat(others []string) int {
	switch p.Kind {
	case PlaceLast:
		return len(others)
	case PlaceBefore:
		return max(0, slices.IndexFunc(others, p.names))
	case PlaceAfter:
		for i := len(others) - 1; i >= 0; i-- {
			if p.names(others[i]) {
				return i + 1
			}
		}
	}
	return 0
}

// Holds reports whether a program that runs after those in before, and before those in
// after, has this place. Other programs may stand between it and the named one.
func (p Place) Holds(before, after []string) bool {
	switch p.Kind {
	case PlaceLast:
		return len(after) == 0
	case PlaceBefore:
		if slices.ContainsFunc(after, p.names) || slices.ContainsFunc(before, p.names) {
			return !slices.ContainsFunc(before, p.names)
		}
	case PlaceAfter:
		if slices.ContainsFunc(after, p.names) || slices.ContainsFunc(before, p.names) {
			return !slices.ContainsFunc(after, p.names)
		}
	}
	return len(before) == 0
}
