// SPDX-License-Identifier: Apache-2.0

// Package commandlinetest tests what all of Waymark's programs promise on the command line:
// every command is documented, says what is wrong with its arguments in plain words, and has
// its errors and its help in JSON.
package commandlinetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/commandline"
)

// Program is a program under test.
type Program struct {
	Name string
	Run  func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
	Root func() *cobra.Command // a new command tree
}

// run executes one command line as main does.
func (p Program) run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = p.Run(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// commands calls see for every command that does something, hidden ones and help included.
func commands(cmd *cobra.Command, see func(*cobra.Command)) {
	if !cmd.HasSubCommands() {
		see(cmd)
	}
	for _, child := range cmd.Commands() {
		commands(child, see)
	}
}

// words are what one types for a command after the program's name.
func words(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// mostColumns is the width of a terminal.
const mostColumns = 80

// Documented tests that every command has a description and does something, and that its help
// fits a terminal, and preformatted lines fit the manual pages, where they begin in column 10.
func (p Program) Documented(t *testing.T) {
	t.Helper()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.RunE == nil {
			t.Errorf("%q: Short %q, RunE set: %v", c.CommandPath(), c.Short, c.RunE != nil)
		}
		for line := range strings.SplitSeq(c.Long+"\n"+c.Example, "\n") {
			if n := utf8.RuneCountInString(line); n > mostColumns || n > 73 && strings.HasPrefix(line, "  ") {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if !c.DisableFlagParsing { // its help is that of another program
			code, stdout, _ := p.run(t.Context(), append(words(c), "--help")...)
			if code != commandline.ExitOK || !strings.Contains(stdout, "Usage:") {
				t.Errorf("%s --help: code %d, %s", c.CommandPath(), code, stdout)
			}
			for line := range strings.SplitSeq(stdout, "\n") {
				if n := utf8.RuneCountInString(line); n > mostColumns {
					t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(p.Root())
}

// Reference tests that the pages in docs/reference are current, and that the program's hidden
// command writes them. reference is that directory.
func (p Program) Reference(t *testing.T, reference string, pages map[string][]byte) {
	t.Helper()
	written := t.TempDir()
	if code, _, stderr := p.run(t.Context(), "docs", written); code != commandline.ExitOK {
		t.Fatal(stderr)
	}
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(reference, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not current (%v); run: make docs", name, err)
		}
		if got, err := os.ReadFile(filepath.Join(written, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the command docs writes another %s: %v", name, err)
		}
	}
}

// Usage tests command lines that are wrong: standard error has the program's name and the text.
func (p Program) Usage(t *testing.T, texts map[string]string) {
	t.Helper()
	for args, want := range texts {
		code, stdout, stderr := p.run(t.Context(), strings.Fields(args)...)
		if want = p.Name + ": " + want + "\n"; code != commandline.ExitUsage || stdout != "" || stderr != want {
			t.Errorf("%s %s: code %d, stdout %q, stderr\n%swant\n%s", p.Name, args, code, stdout, stderr, want)
		}
	}
}

// EmptyValues gives every flag that takes text an empty value, as an unset variable of a script
// does: it is refused before anything happens, and the error says what to do.
func (p Program) EmptyValues(t *testing.T, least int) {
	t.Helper()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel() // a command that was not refused ends soon
	tried := 0
	commands(p.Root(), func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kind := f.Value.Type(); kind != "string" && kind != "stringArray" && kind != "stringSlice" {
				return
			}
			tried++
			args := append(words(cmd), "--"+f.Name, "")
			for _, arguments := range [][]string{nil, {"x"}, {"x", "y"}, {"x", "y", "z"}} { // one of them is the right number
				code, stdout, stderr := p.run(interrupted, append(args, arguments...)...)
				if code != commandline.ExitUsage || stdout != "" {
					t.Errorf("%s %q: code %d, stdout %q, stderr %q", p.Name, args, code, stdout, stderr)
				}
				if strings.Contains(stderr, "--"+f.Name+" has an empty value; give one, or remove --"+f.Name) {
					return
				}
			}
			t.Errorf("%s %q: no error says that --%s is empty", p.Name, args, f.Name)
		})
	})
	if tried < least {
		t.Errorf("%d flags were tried, want %d", tried, least)
	}
}

// goWords are words of Go's own errors.
var goWords = regexp.MustCompile(`strconv|parsing|invalid syntax|invalid argument|time: |value out of range`)

// WrongValues tests that every flag of every command describes its value in plain words, and that
// there are flags of these types.
func (p Program) WrongValues(t *testing.T, types ...string) {
	t.Helper()
	seen := map[string]bool{}
	check := func(cmd *cobra.Command, flag *pflag.Flag, value string) {
		args := append(words(cmd), "--"+flag.Name+"="+value)
		code, stdout, stderr := p.run(t.Context(), args...)
		if code != commandline.ExitUsage || stdout != "" || goWords.MatchString(stderr) ||
			!strings.HasPrefix(stderr, p.Name+": --"+flag.Name+" ") ||
			!strings.Contains(stderr, "want") && !strings.Contains(stderr, "out of range") {
			t.Errorf("%s %q: code %d, stdout %q, stderr %q", p.Name, args, code, stdout, stderr)
		}
	}
	commands(p.Root(), func(cmd *cobra.Command) {
		if cmd.DisableFlagParsing {
			return
		}
		see := func(flag *pflag.Flag) {
			seen[flag.Value.Type()] = true
			if flag.Value.Type() == "string" || flag.Value.Type() == "stringArray" {
				return // each value is checked by its command
			}
			for _, value := range []string{"abc", "", "99999999999999999999x", "1e99999"} {
				check(cmd, flag, value)
			}
			if strings.Contains(flag.Value.Type(), "int") {
				check(cmd, flag, "99999999999999999999")
				check(cmd, flag, "1.5")
			}
		}
		cmd.InitDefaultHelpFlag()
		cmd.NonInheritedFlags().VisitAll(see)
		cmd.InheritedFlags().VisitAll(see)
	})
	for _, kind := range types {
		if !seen[kind] {
			t.Errorf("no flag is of the type %s; there are %v", kind, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// HelpInJSON tests that the help of every command has a form in JSON, in the three ways to ask
// for it.
func (p Program) HelpInJSON(t *testing.T) {
	t.Helper()
	_, all, _ := p.run(t.Context(), "help", "--json")
	var whole commandline.Help
	if err := json.Unmarshal([]byte(all), &whole); err != nil || whole.Command != p.Name || len(whole.Commands) < 3 {
		t.Fatalf("%v: %s", err, all)
	}
	for _, args := range []string{"--json", "--json --help", "--help --json"} {
		if code, stdout, stderr := p.run(t.Context(), strings.Fields(args)...); code != commandline.ExitOK || stdout != all || stderr != "" {
			t.Errorf("%s %s: code %d, stdout %q, stderr %q", p.Name, args, code, stdout, stderr)
		}
	}
	commands(p.Root(), func(cmd *cobra.Command) {
		asked := [][]string{append([]string{"help", "--json"}, words(cmd)...), append(words(cmd), "--json", "--help")}
		if cmd.DisableFlagParsing {
			asked = asked[:1] // its flags are those of another program
		}
		for _, args := range asked {
			code, stdout, _ := p.run(t.Context(), args...)
			var help commandline.Help
			if err := json.Unmarshal([]byte(stdout), &help); err != nil || code != commandline.ExitOK || help.Command != cmd.CommandPath() ||
				help.Usage == "" ||
				len(help.GlobalFlags) == 0 {
				t.Errorf("%q: code %d, %v, %s", args, code, err, stdout)
			}
		}
	})
}
