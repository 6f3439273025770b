// SPDX-License-Identifier: Apache-2.0

// Command waymark-lab builds networks of namespaces on one machine, with Waymark's agents, to
// try Waymark and to experiment: topologies, traffic, loss, delay, and a demonstration.
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
	opts := newOptions()
	return opts.Execute(ctx, newRoot(opts), args, stdin, stdout, stderr)
}

func newOptions() *commandline.Options {
	return &commandline.Options{Failure: func(err error) any { return newFailure(err) }, Text: text}
}

// newRoot builds the whole command tree.
func newRoot(opts *commandline.Options) *cobra.Command {
	root := opts.NewRoot("waymark-lab", "Build networks of namespaces on this machine for experiments")
	addCommands(root, opts)
	root.AddCommand(opts.NewDocsCommand(docgen.WriteCommands))
	opts.Finish(root)
	return root
}
