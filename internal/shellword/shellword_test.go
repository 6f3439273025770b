// SPDX-License-Identifier: Apache-2.0

package shellword

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A real shell splits what is joined into the same words.
func TestShell(t *testing.T) {
	var every strings.Builder
	for c := rune(1); c < 0x180; c++ {
		every.WriteRune(c)
	}
	words := []string{"plain-1.yaml", "", "two words", "it's", `"$HOME" \ $(false)`, "*", "~", "#", "a\nb", every.String(), "last"}
	out, err := exec.Command("sh", "-c", `for w in `+Join(words)+`; do printf '%s\0' "$w"; done`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("%q, want %q", got, words)
	}
	if got := Quote(words[0]); got != words[0] {
		t.Errorf("%q is quoted", got)
	}
}
