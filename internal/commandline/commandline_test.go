// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestWordsOfFlagTypes(t *testing.T) {
	for kind, want := range map[string]string{
		"bool": "want true or false", "int": "want a whole number", "int64": "want a whole number",
		"uint8": "want a whole number from 0 to 255", "uint32": "want a whole number from 0 to 4294967295",
		"uint": "want a whole number from 0 to 18446744073709551615", "float64": "want a number",
		"duration": "want a time with its unit, such as 5s, 200ms or 1m",
	} {
		if got := wants(kind, os.ErrInvalid); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

func TestInterruptionHidesNothing(t *testing.T) {
	canceled, other := fmt.Errorf("wait: %w", context.Canceled), errors.New("the lab is left behind")
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{canceled, []string{"interrupted"}},
		{errors.Join(canceled, other), []string{"interrupted", other.Error()}},
		{fmt.Errorf("raise: %w", errors.Join(other, canceled)), []string{"interrupted", other.Error()}},
		{fmt.Errorf("interrupted; everything has been removed: %w", context.Canceled), []string{"interrupted; everything has been removed: context canceled"}},
	} {
		if got := interruption(tt.err); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// A command of a program that is not there says which package has it.
func TestHandoverToNone(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c := (&Options{}).NewHandoverCommand("lab", "the lab", "waymark-lab")
	c.SetArgs([]string{"up", "line"})
	c.SilenceErrors, c.SilenceUsage = true, true
	const want = "the program waymark-lab is not installed; install the package waymark-lab, or put the program into a directory of the PATH"
	if err := c.Execute(); err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
