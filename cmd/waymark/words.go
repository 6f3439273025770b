// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
)

// inWords completes a command in the words of iproute2: it parses them, and calls act
// to carry them out.
func inWords[W any](
	opts *options,
	cmd *cobra.Command,
	name string,
	parse func([]string) (W, error),
	act func(*cobra.Command, *api.Client, W) error,
) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asksHelp(args) {
			return cmd.Help()
		}
		words, err := parse(args)
		if err != nil {
			return commandline.Usage(problem.Append(fmt.Errorf("%s: %w", name, err), fmt.Sprintf("see '%s --help'", cmd.CommandPath())))
		}
		c, err := opts.client()
		if err != nil {
			return err
		}
		return act(cmd, c, words)
	}
	return cmd
}

// changed ends a command that changed the agent's configuration: it prints the agent's
// warnings, one per line.
func (o *options) changed(cmd *cobra.Command, done api.Changed, err error) error {
	printAdvice(cmd, done.Warnings)
	return o.Done(cmd.OutOrStdout(), err)
}

func printAdvice(cmd *cobra.Command, ws []health.Warning) {
	for _, w := range ws {
		fmt.Fprintf(cmd.ErrOrStderr(), "waymark: %s: %s; %s\n", w.Severity, w.Text, w.Cure)
	}
}

// abbreviations are the prefixes that iproute2 accepts for a word.
func abbreviations(word string) []string {
	var list []string
	for n := 1; n < len(word); n++ {
		list = append(list, word[:n])
	}
	return list
}

// asksHelp is for commands with iproute2's grammar, where help is a word.
func asksHelp(args []string) bool { return len(args) == 1 && args[0] == "help" }
