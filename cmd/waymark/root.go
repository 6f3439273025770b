// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
)

// options are the persistent flags, and what a subcommand needs to honour them.
type options struct {
	commandline.Options

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
		return "", commandline.Usagef("no agent socket is known; give --socket PATH")
	}
	return o.defaultSocket()
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := newOptions()
	opts.defaultSocket, opts.programsLeft = localSocket, localLeft
	root := newRoot(opts)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return opts.Conclude(ctx, args, opts.withoutAgent(root.ExecuteContext(ctx)), stdout, stderr)
}

// newRoot builds the whole command tree.
func newRoot(opts *options) *cobra.Command {
	root := opts.NewRoot("waymark", "See the way and the delays of live IPv6 traffic")
	root.Long = `Waymark tells, for live IPv6 traffic on stock Linux kernels, which way packets
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
'observe'. A service such as 'agent run' is ended by a signal, and so with 0.`
	root.PersistentFlags().StringVar(&opts.socket, "socket", "", "`PATH` of the agent's API socket (default: the agent of this network namespace)")

	root.AddCommand(newAgentCommand(opts), newStatusCommand(opts), newObserveCommand(opts), newCollectCommand(opts),
		newIOAMCommand(opts), newRouteCommand(opts), newInterfaceCommand(opts), newDecapsulationCommand(opts), newDoctorCommand(opts),
		newConfigCommand(opts), newDecodeCommand(opts), newLabCommand(opts), newDocsCommand(opts))
	opts.Finish(root)
	return root
}
