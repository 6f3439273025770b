// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/cmd/waymark/active"
	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/docgen"
	"github.com/waymark-net/waymark/internal/problem"
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

	// agentsElsewhere finds the running agents of other network namespaces.
	agentsElsewhere func() []instances.Other

	// asked is the command line, for advice that repeats it.
	asked []string
}

// socketPath is the agent's API socket: --socket, else the default.
func (o *options) socketPath() (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	if o.defaultSocket == nil {
		return "", commandline.Usage(problem.New("no agent socket is known", "give --socket PATH"))
	}
	return o.defaultSocket()
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := newOptions()
	opts.defaultSocket, opts.programsLeft, opts.agentsElsewhere = localSocket, localLeft, localElsewhere
	opts.Explain, opts.asked = opts.withoutAgent, args
	return opts.Execute(ctx, newRoot(opts), args, stdin, stdout, stderr)
}

// newRoot builds the whole command tree.
func newRoot(opts *options) *cobra.Command {
	root := opts.NewRoot("waymark", "Show the paths and delays of live IPv6 traffic")
	root.Long = `Waymark shows which way live IPv6 packets took, and where their time went, on
stock Linux kernels (IOAM: RFC 9197, RFC 9326, RFC 9486).

Results go to standard output, everything else to standard error. With --json,
results are JSON, and an error is the last object on standard output:
{"kind":"error","ok":false,"error":"a sentence; a cure"}. For errors in a file
or a request, "faults" has file, line, column, problem and cure. Commands that
only change something print {"ok":true}. An interruption is not an error.

The words of 'ioam' and 'route' can be shortened like those of 'ip':
'waymark r s' is 'waymark route show'.

Exit codes: 0 success; 1 failure, or errors found by a check; 2 wrong usage; 130
interrupted (SIGINT, SIGTERM), also for commands that run until then, such as
'observe'. A service such as 'agent run' exits with 0 after these signals.`
	root.PersistentFlags().
		StringVar(&opts.socket, "socket", "", "`PATH` of the agent's API socket (default: the agent of this network namespace)")

	root.AddCommand(
		newAgentCommand(opts),
		newStatusCommand(opts),
		newObserveCommand(opts),
		opts.NewHandoverCommand("collect", "Receive IPFIX, join postcards into paths, and compute loss", "waymark-collector", "collect"),
		newIOAMCommand(opts),
		newRouteCommand(opts),
		newInterfaceCommand(opts),
		newDecapsulationCommand(opts),
		newFlowCommand(opts),
		newLossCommand(opts),
		newTopCommand(opts),
		newEventsCommand(opts),
		newQueueCommand(opts),
		active.NewStampCommand(&opts.Options),
		newPotCommand(opts),
		active.NewTraceCommand(&opts.Options, opts.client),
		newProbesCommand(opts),
		newDoctorCommand(opts),
		newConfigCommand(opts),
		newDecodeCommand(opts),
		opts.NewHandoverCommand("lab", "Build networks of namespaces on this machine for experiments", "waymark-lab"),
		opts.NewDocsCommand(docgen.Write))
	addHistory(root, opts)
	opts.Finish(root)
	return root
}
