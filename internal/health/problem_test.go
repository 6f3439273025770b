// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Warnings of one cause are one problem, the worst first and then that with most places; no
// warning is lost.
func TestProblems(t *testing.T) {
	ws := []Warning{
		New(
			TCXMissing,
			"",
			"",
			"",
		), New(MTUTooSmall, "b", "1", ""), New(MTUTooSmall, "a", "2", ""), New(MTUTooSmall, "a", "3", ""), New(PathMTULowered, "c", "", ""),
		New(NamespaceUnknown, "a", "", ""), New(KernelIOAM6, "z", "", ""), New(MTUBelowMinimum, "d", "", ""),
	}
	var got []string
	total := 0
	for _, p := range Problems(ws) {
		got = append(got, fmt.Sprint(p.Severity, " ", p.Warnings[0].Code, " ", len(p.Warnings), " ", strings.Join(p.Interfaces(), ",")))
		total += len(p.Warnings)
	}
	want := []string{
		"error mtu_below_minimum 5 d,a,b,c",
		"error kernel_ioam6_enabled 1 z",
		"warning namespace_unknown 1 a",
		"info tcx_missing 1 ",
	}
	if !slices.Equal(got, want) || total != len(ws) {
		t.Errorf("%q, %d warnings; want %q", got, total, want)
	}
	if Problems(nil) != nil {
		t.Error("problems without warnings")
	}
}
