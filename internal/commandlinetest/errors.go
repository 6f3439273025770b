// SPDX-License-Identifier: Apache-2.0

package commandlinetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
)

// Failing is a command line that fails.
type Failing struct {
	Command, Args string
	Code          int
	Faults        int  // in the object
	Speaks        bool // it also writes elsewhere than where its error is, as a script of a shell
}

// ErrorsInJSON tests that a command that fails prints one object with --json, and text without it.
// There is at least one failure of every command. bad is the file in which there are faults.
func (p Program) ErrorsInJSON(t *testing.T, bad string, failures []Failing) {
	t.Helper()
	tested := map[string]bool{}
	for _, f := range failures {
		p.fails(t, f, bad)
		tested[f.Command] = true
	}
	commands(p.Root(), func(cmd *cobra.Command) {
		if name := strings.Join(words(cmd), " "); !tested[name] {
			t.Errorf("no failure of %s is tested", cmd.CommandPath())
		}
	})
}

func (p Program) fails(t *testing.T, f Failing, bad string) {
	t.Helper()
	args := append(strings.Fields(f.Command), strings.Fields(f.Args)...)
	code, stdout, stderr := p.run(t.Context(), append([]string{"--json"}, args...)...)
	var got struct {
		commandline.Failure
		Faults config.Faults `json:"faults"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != f.Code || got.Kind != "error" || got.OK || got.Error == "" ||
		len(got.Faults) != f.Faults || !strings.HasSuffix(stdout, "}\n") {
		t.Errorf(
			"%s --json %q: code %d, want %d; %v, %d faults, want %d, stdout %q",
			p.Name,
			args,
			code,
			f.Code,
			err,
			len(got.Faults),
			f.Faults,
			stdout,
		)
	}
	if stderr != "" && !f.Speaks {
		t.Errorf("%s --json %q says it once more: %q", p.Name, args, stderr)
	}
	args = slices.DeleteFunc(args, func(a string) bool { return a == "--json" })
	code, stdout, stderr = p.run(t.Context(), args...)
	said := strings.HasPrefix(stderr, p.Name+": ") || f.Faults > 0 && strings.HasPrefix(stderr, bad+":")
	if !f.Speaks && (code != f.Code || stdout != "" || !said) {
		t.Errorf("%s %q: code %d, stdout %q, stderr %q", p.Name, args, code, stdout, stderr)
	}
}
