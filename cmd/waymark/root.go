// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
)

// Exit codes, part of the command line's contract.
const (
	exitOK          = 0   // done
	exitFailure     = 1   // what was asked for failed, or a check found faults
	exitUsage       = 2   // the command line itself is wrong; nothing was done
	exitNoExec      = 126 // the command for a lab's node may not be executed, as shells say it
	exitNotFound    = 127 // there is no such command for a lab's node, as shells say it
	exitInterrupted = 130 // Ctrl-C, as shells say it: 128 and the signal's number
)

// usageError marks an error that the command line causes by itself.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usagef makes an error that ends the program with exitUsage.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// commandError marks an error of finding the command for a lab's node.
type commandError struct{ err error }

func (e commandError) Error() string { return e.err.Error() }
func (e commandError) Unwrap() error { return e.err }

// code is the exit code that a shell would end with.
func (e commandError) code() int {
	if errors.Is(e.err, fs.ErrPermission) {
		return exitNoExec
	}
	return exitNotFound
}

// errReported ends the program with exitFailure when the faults have been
// printed already.
var errReported = errors.New("faults were reported")

// options are the persistent flags, and what a subcommand needs to honour them.
type options struct {
	json   bool
	socket string

	// defaultSocket finds the API socket of the agent that serves the network
	// namespace this process runs in.
	defaultSocket func() (string, error)
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
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if socket := root.PersistentFlags().Lookup("socket"); socket.Changed && errors.Is(err, api.ErrNoAgent) {
		err = fmt.Errorf("nobody answers at %s; name the socket of an agent that runs, or leave --socket out to ask the agent of this network namespace", socket.Value)
	}
	var usage usageError
	var command commandError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailure
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		for _, line := range interruption(err) {
			fmt.Fprintf(stderr, "waymark: %s\n", line)
		}
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "waymark: %v\n", err)
		return exitUsage
	case errors.As(err, &command):
		fmt.Fprintf(stderr, "waymark: %v\n", err)
		return command.code()
	default:
		fmt.Fprintf(stderr, "waymark: %v\n", err)
		return exitFailure
	}
}

// newRootCommand builds the whole command tree.
func newRootCommand() *cobra.Command {
	opts := &options{defaultSocket: localSocket}
	var showVersion bool
	root := &cobra.Command{
		Use:   "waymark",
		Short: "See the way and the delays of live IPv6 traffic",
		Long: `Waymark tells, for live IPv6 traffic on stock Linux kernels, which way packets
went and how long each hop held them (IOAM, RFC 9197 and RFC 9486).

Results go to standard output, everything else to standard error.

The words of 'ioam' and 'route' may be shortened as those of 'ip' may: 'waymark
r s' is 'waymark route show'.

Exit codes: 0 done; 1 it failed, or a check found faults; 2 wrong usage; 130
interrupted (SIGINT, SIGTERM), also where only that ends a command, as it does
'observe'. A service such as 'agent run' is ended by a signal, and so with 0.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
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
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.Contains(err.Error(), "missing unit in duration") {
			return usagef("%w; write one, as in 5s, 200ms or 1m", err)
		}
		return usagef("%w; see '%s --help'", err, cmd.CommandPath())
	})

	root.AddCommand(newAgentCommand(opts), newStatusCommand(opts), newObserveCommand(opts), newCollectCommand(opts),
		newIOAMCommand(opts), newRouteCommand(opts), newDoctorCommand(opts))
	root.AddCommand(newConfigCommand(opts))
	root.AddCommand(newDecodeCommand(opts))
	root.AddCommand(newLabCommand(opts))
	root.AddCommand(newBenchCommand(opts))
	root.AddCommand(newCompletionCommand())
	root.AddCommand(newManCommand())
	root.AddCommand(newDocsCommand())
	root.AddCommand(newVersionCommand(opts))
	root.SetHelpCommand(newHelpCommand())
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
