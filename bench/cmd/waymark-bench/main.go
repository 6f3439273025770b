// SPDX-License-Identifier: Apache-2.0

// Command waymark-bench measures what Waymark's data plane costs, and draws and reports
// the results. It is separate from the router's program, which measures nothing.
package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/docgen"
)

func main() { os.Exit(commandline.Run(run)) }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := &commandline.Options{}
	return opts.Execute(ctx, newRoot(opts), args, stdin, stdout, stderr)
}

// newRoot builds the whole command tree.
func newRoot(opts *commandline.Options) *cobra.Command {
	root := opts.NewRoot("waymark-bench", "Measure what Waymark's data plane costs on this machine")
	root.Long = `Measure what Waymark's data plane costs on this machine: nanoseconds per packet
and outcome, packets per second through forwarding nodes in the experiments of
the IOAM papers, memory, and the time to get ready.

It needs root, works in its own network namespaces, and removes them at the end.
Use an idle machine. 'footprint' starts agents of the program waymark in the
directory of this program, or of --program.

Results go to standard output, everything else to standard error. With --json,
results are JSON, and an error is the last object on standard output:
{"kind":"error","ok":false,"error":"a sentence; a cure"}.

Exit codes: 0 success; 1 failure; 2 wrong usage; 130 interrupted (SIGINT,
SIGTERM).`
	root.AddCommand(
		newListCommand(opts),
		newRunCommand(opts),
		newCompareCommand(opts),
		newReportCommand(opts),
		newExecutedCommand(opts),
		newInstructionsCommand(opts),
		newForeignCommand(),
		newExporterCommand(),
		opts.NewDocsCommand(docgen.WriteCommands),
	)
	opts.Finish(root)
	return root
}
