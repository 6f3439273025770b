// SPDX-License-Identifier: Apache-2.0

// Package commandline is what Waymark's programs have in common on the command
// line: usage errors and exit codes, --json, help, versions, completions and
// manual pages.
package commandline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/problem"
)

// Options are what every program knows of its command line.
type Options struct {
	JSON bool // results and errors are JSON
	Wide bool // text may be wider than the screen

	// Explain says more of an error of a command; nil: it stays as it is.
	Explain func(error) error
	// Failure makes the object that --json prints of an error; nil: NewFailure.
	Failure func(error) any
	// Text makes the lines that standard error gets of an error; nil: one, with
	// the program's name.
	Text func(error) []string

	program   string
	handovers map[*cobra.Command]handover // the commands that other programs carry out
}

// NewRoot begins a program's command tree. Once it has its own commands, Finish
// adds those that all programs have.
func (o *Options) NewRoot(program, short string) *cobra.Command {
	var showVersion bool
	o.program = program
	root := &cobra.Command{
		Use:           program,
		Short:         short,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,

		PersistentPreRunE: noEmptyValues,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return o.printVersion(cmd.OutOrStdout())
			}
			return GroupRun(cmd, args)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Flags().BoolVarP(&showVersion, "version", "V", false, "print the version")
	root.PersistentFlags().BoolVar(&o.JSON, "json", false, "print JSON instead of text")
	return root
}

// Finish ends the command tree that NewRoot began.
func (o *Options) Finish(root *cobra.Command) {
	root.AddCommand(newCompletionCommand(o), newManCommand(o), newVersionCommand(o))
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelpCommand(o))
	root.SetHelpFunc(o.helpInJSON(o.foldedHelp(root.HelpFunc())))
	root.SetUsageFunc(usageWithoutAliases(root.UsageFunc()))
	markUsageErrors(root)
}

// PrintJSON prints a result as one line.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Done ends a command that has no result but that it did what was asked.
func (o *Options) Done(out io.Writer, err error) error {
	if err != nil || !o.JSON {
		return err
	}
	return PrintJSON(out, struct {
		OK bool `json:"ok"`
	}{true})
}

// WithoutJSON refuses --json for a command whose result is a document in
// another language.
func (o *Options) WithoutJSON(result string) error {
	if !o.JSON {
		return nil
	}
	return Usage(problem.New(fmt.Sprintf("%s has no form in JSON", result), "remove --json"))
}

// GroupRun is the action of a command that only holds subcommands: without
// arguments it prints help, and a word that names no subcommand is an error
// (cobra alone would print the help and succeed).
func GroupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text, cure := unknownCommand(cmd, args[0])
	return Usage(problem.New(text, cmp.Or(cure, fmt.Sprintf("see '%s --help'", cmd.CommandPath()))))
}

// unknownCommand says that a command has no subcommand of this name, and which may be meant; the cure is "" if none is.
func unknownCommand(cmd *cobra.Command, name string) (text, cure string) {
	text = fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = min(2, len(name)/2) // most short words are within 2 letters of some command
	meant := elsewhere(cmd, name)
	if known := meantBy(cmd, name); len(meant) == 0 && known != "" {
		meant = []string{known}
	}
	if len(meant) == 0 {
		meant = cmd.SuggestionsFor(name)
	}
	if len(meant) > 0 {
		cure = "did you mean " + strings.Join(meant, " or ") + "?"
	}
	return text, cure
}

// meantBy is the subcommand for a word that other programs have for it; "" if there is none.
func meantBy(cmd *cobra.Command, word string) string {
	for _, child := range cmd.Commands() {
		if slices.Contains(child.SuggestFor, word) {
			return child.Name()
		}
	}
	return ""
}

// Group makes a command that only holds subcommands.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE:  GroupRun,
	}
	cmd.AddCommand(children...)
	return cmd
}

// markUsageErrors makes every command's check of its arguments end in
// ExitUsage.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var usage UsageError
			if err != nil && !errors.As(err, &usage) {
				return Usage(problem.Append(err, fmt.Sprintf("see '%s --help'", cmd.CommandPath())))
			}
			return err
		}
	}
	for _, child := range cmd.Commands() {
		markUsageErrors(child)
	}
}

// Run runs a program until it ends or is interrupted, and gives its exit code. A
// second signal ends the program at once.
func Run(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Execute runs one command line of a tree that Finish ended, and gives the exit
// code.
func (o *Options) Execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if o.Explain != nil {
		err = o.Explain(err)
	}
	return o.conclude(ctx, args, err, stdout, stderr)
}
