// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// runCLI executes one command line as main does.
func runCLI(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `waymark: unknown command "nonsense" for "waymark"`},
		{[]string{"--nonsense"}, `waymark: unknown flag: --nonsense; see 'waymark --help'`},
	} {
		code, stdout, stderr := runCLI(t, "", tt.args...)
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, tt.want) {
			t.Errorf("waymark %q: code %d, stdout %q, stderr %q; want code %d and stderr %q",
				tt.args, code, stdout, stderr, exitUsage, tt.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}} {
		code, stdout, stderr := runCLI(t, "", args...)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, "Exit codes: 0 done") {
			t.Errorf("waymark %q: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
