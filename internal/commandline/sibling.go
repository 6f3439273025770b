// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Sibling finds another of Waymark's programs: in the directory of this one, else in the PATH.
func Sibling(program string) (path string, err error) {
	if own, err := os.Executable(); err == nil {
		if found, err := exec.LookPath(filepath.Join(filepath.Dir(own), program)); err == nil {
			return found, nil
		}
	}
	if path, err = exec.LookPath(program); err != nil {
		return "", problem.New(
			fmt.Sprintf("the program %s is not installed", program),
			fmt.Sprintf("install the package %s, or put the program into a directory of the PATH", program),
		)
	}
	return filepath.Abs(path)
}

// handover is the program that carries out a command, and the words that it has for it.
type handover struct {
	program string
	words   []string
}

// NewHandoverCommand makes a command that another program carries out: it replaces this one, with the
// same arguments after its own words, without the flags of this program alone, and has the terminal, signals and exit
// code.
func (o *Options) NewHandoverCommand(use, short, program string, words ...string) *cobra.Command {
	to := handover{program, words}
	cmd := &cobra.Command{
		Use:   use + " [ARGUMENT...]",
		Short: short,
		Long: fmt.Sprintf(`%s: runs the program
'%s' with the same arguments. It is in the package
%s. Its help: '%s --help'.`, short, strings.Join(append([]string{program}, words...), " "), program, strings.Join(append([]string{program}, words...), " ")),
		DisableFlagParsing: true,
		ValidArgsFunction:  completeBy(program, words),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.JSON = asksJSON(args)
			return to.run(slices.Concat(words, withoutOwn(cmd.Root(), args)))
		},
	}
	if o.handovers == nil {
		o.handovers = map[*cobra.Command]handover{}
	}
	o.handovers[cmd] = to
	return cmd
}

// withoutOwn leaves out the flags that only this program has, such as --socket of waymark: other commands without a use
// for them ignore them, too. Only those at the begin are this program's, where cobra leaves the flags that stand before
// the command. What follows another word may be meant for a third program, as with 'lab exec'.
func withoutOwn(root *cobra.Command, args []string) (others []string) {
	for len(args) > 0 {
		name, _, hasValue := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		flag, words := root.PersistentFlags().Lookup(name), 1
		if flag != nil && !hasValue && flag.NoOptDefVal == "" {
			words = 2
		}
		if flag == nil || !strings.HasPrefix(args[0], "--") || len(args) < words {
			break
		}
		if name == "json" { // which all programs have
			others = append(others, args[0])
		}
		args = args[words:]
	}
	return append(others, args...)
}

// run replaces this program by the other one.
func (h handover) run(args []string) error {
	path, err := Sibling(h.program)
	if err != nil {
		return err
	}
	err = unix.Exec(path, slices.Concat([]string{path}, args), os.Environ())
	return fmt.Errorf("run %s: %w", path, err)
}

// help has the other program explain its command, or one below it.
func (h handover) help(below []string, asJSON bool) error {
	args := slices.Concat([]string{"help"}, h.words, below)
	if asJSON {
		args = append(args, "--json")
	}
	return h.run(args)
}

// completeBy asks another program for what may follow.
func completeBy(program string, words []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		path, err := Sibling(program)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		asked := slices.Concat([]string{cobra.ShellCompRequestCmd}, words, withoutOwn(cmd.Root(), args), []string{typed})
		out, err := exec.CommandContext(cmd.Context(), path, asked...).Output()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		directive, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":")) // the last line
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
	}
}
