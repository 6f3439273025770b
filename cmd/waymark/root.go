// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// options are the persistent flags, and what a subcommand needs to honour them.
type options struct {
	json   bool
	socket string

	// defaultSocket finds the API socket of the agent that serves the network
	// namespace this process runs in.
	defaultSocket func() (string, error)

	// programsLeft names the interfaces of this network namespace that programs
	// of an ended agent still serve.
	programsLeft func() []string
}

// socketPath is the agent's API socket: --socket, else the default.
func (o *options) socketPath() (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	if o.defaultSocket == nil {
		return "", usagef("no agent socket is known; give --socket PATH")
	}
	return o.defaultSocket()
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := &options{defaultSocket: localSocket, programsLeft: localLeft}
	root := newRoot(opts)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return opts.conclude(ctx, args, root.ExecuteContext(ctx), stdout, stderr)
}

// newRoot builds the whole command tree.
func newRoot(opts *options) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "waymark",
		Short: "See the way and the delays of live IPv6 traffic",
		Long: `Waymark tells, for live IPv6 traffic on stock Linux kernels, which way packets
went and how long each hop held them (IOAM, RFC 9197 and RFC 9486).

Results go to standard output, everything else to standard error. With --json,
results are JSON, and an error is an object on standard output as well, the last
one: {"kind":"error","ok":false,"error":"a sentence; a cure"}, and "faults" with
file, line, column, problem and cure where a file or a request is at fault. What
only changes something prints {"ok":true}. An interruption is no error.

The words of 'ioam' and 'route' may be shortened as those of 'ip' may: 'waymark
r s' is 'waymark route show'.

Exit codes: 0 done; 1 it failed, or a check found faults; 2 wrong usage; 130
interrupted (SIGINT, SIGTERM), also where only that ends a command, as it does
'observe'. A service such as 'agent run' is ended by a signal, and so with 0.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,

		PersistentPreRunE: noEmptyValues,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return printVersion(cmd.OutOrStdout(), opts.json)
			}
			return groupRun(cmd, args)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	root.PersistentFlags().BoolVar(&opts.json, "json", false, "print JSON instead of text")
	root.PersistentFlags().StringVar(&opts.socket, "socket", "", "`PATH` of the agent's API socket (default: the agent of this network namespace)")
	root.SetFlagErrorFunc(flagError)

	root.AddCommand(newAgentCommand(opts), newStatusCommand(opts), newObserveCommand(opts), newCollectCommand(opts),
		newIOAMCommand(opts), newRouteCommand(opts), newInterfaceCommand(opts), newDecapsulationCommand(opts), newDoctorCommand(opts))
	root.AddCommand(newConfigCommand(opts))
	root.AddCommand(newDecodeCommand(opts))
	root.AddCommand(newLabCommand(opts))
	root.AddCommand(newBenchCommand(opts))
	root.AddCommand(newCompletionCommand(opts))
	root.AddCommand(newManCommand(opts))
	root.AddCommand(newDocsCommand(opts))
	root.AddCommand(newVersionCommand(opts))
	root.SetHelpCommand(newHelpCommand())
	root.SetHelpFunc(helpInJSON(opts, root.HelpFunc()))
	root.SetUsageFunc(usageWithoutAliases(root.UsageFunc()))
	markUsageErrors(root)
	return root
}

// groupRun is the action of a command that only holds subcommands: without
// arguments it prints help, and a word that names no subcommand is an error
// (cobra alone would print the help and succeed).
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if known := elsewhere(cmd, args[0]); len(known) > 0 {
		msg += "; did you mean " + strings.Join(known, " or ") + "?"
	} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	} else {
		msg += fmt.Sprintf("; see '%s --help'", cmd.CommandPath())
	}
	return usagef("%s", msg)
}

// newGroup makes a command that only holds subcommands.
func newGroup(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE:  groupRun,
	}
	cmd.AddCommand(children...)
	return cmd
}

// markUsageErrors makes every command's check of its arguments end in
// exitUsage.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var usage usageError
			if err != nil && !errors.As(err, &usage) {
				return usagef("%w; see '%s --help'", err, cmd.CommandPath())
			}
			return err
		}
	}
	for _, child := range cmd.Commands() {
		markUsageErrors(child)
	}
}
