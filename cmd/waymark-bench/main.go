// SPDX-License-Identifier: Apache-2.0

// Command waymark-bench measures what Waymark's data plane costs, and draws and
// reports what was measured. It is apart from the router's program, which
// measures nothing.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := &commandline.Options{}
	root := newRoot(opts)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return opts.Conclude(ctx, args, root.ExecuteContext(ctx), stdout, stderr)
}

// newRoot builds the whole command tree.
func newRoot(opts *commandline.Options) *cobra.Command {
	root := opts.NewRoot("waymark-bench", "Measure what Waymark's data plane costs on this machine")
	root.Long = `Measure what Waymark's data plane costs on this machine: nanoseconds per packet
and outcome, packets per second through forwarding nodes in the experiments of the
IOAM papers, memory, and the time to get ready.

It needs root, works in network namespaces of its own, and leaves nothing behind.
Figures of a machine that does something else meanwhile are worth little. The
agents that 'footprint' starts are of the program waymark in the directory of
this one, or of --program.

Results go to standard output, everything else to standard error. With --json,
results are JSON, and an error is an object on standard output as well, the last
one: {"kind":"error","ok":false,"error":"a sentence; a cure"}.

Exit codes: 0 done; 1 it failed; 2 wrong usage; 130 interrupted (SIGINT, SIGTERM).`
	root.AddCommand(newListCommand(opts), newRunCommand(opts), newReportCommand(opts),
		newInstructionsCommand(opts), newExporterCommand(), newDocsCommand(opts))
	opts.Finish(root)
	return root
}
