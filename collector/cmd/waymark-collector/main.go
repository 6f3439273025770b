// SPDX-License-Identifier: Apache-2.0

// Command waymark-collector receives what nodes export over IPFIX, joins postcards into paths, keeps them in a store,
// answers questions about them, and compares what nodes counted.
package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
)

func main() { os.Exit(commandline.Run(run)) }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts := &commandline.Options{}
	return opts.Execute(ctx, newRoot(opts), args, stdin, stdout, stderr)
}

// newRoot builds the whole command tree.
func newRoot(opts *commandline.Options) *cobra.Command {
	root := opts.NewRoot("waymark-collector", "Receive what Waymark's nodes export, and join it into paths and losses")
	root.Long = `Receive what Waymark's nodes, and other exporters of IPFIX, report: postcards of
Direct Exports, traces, flows, and what nodes counted of measured flows.

Results go to standard output, everything else to standard error. With --json,
results are JSON, and an error is the last object on standard output:
{"kind":"error","ok":false,"error":"a sentence; a cure"}.

'waymark collect' is the same as 'waymark-collector collect'.

Exit codes: 0 success; 1 failure; 2 wrong usage; 130 interrupted (SIGINT,
SIGTERM) before --count was reached.`
	root.AddCommand(
		newRunCommand(),
		newConfigCommand(opts),
		newStatusCommand(opts),
		newDoctorCommand(opts),
		newStoreCommand(opts),
		newCollectCommand(opts),
		opts.NewDocsCommand(writeDocs),
	)
	opts.Finish(root)
	return root
}
