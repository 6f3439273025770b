// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
)

// completing offers the words that may follow the arguments, and no files.
func completing(next func(cmd *cobra.Command, args []string) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return commandline.Beginning(next(cmd, args), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFirst offers the words that a command's arguments begin with.
func completeFirst(words ...cobra.Completion) cobra.CompletionFunc {
	return completing(func(_ *cobra.Command, args []string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		return words
	})
}

// named returns the names of the running agent's entries; none without an agent.
func named[T any](
	opts *options,
	cmd *cobra.Command,
	list func(*api.Client, context.Context) ([]T, error),
	name func(T) string,
) (names []cobra.Completion) {
	c, err := opts.client()
	if err != nil {
		return nil
	}
	all, _ := list(c, cmd.Context())
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

// completeWords completes a flag that takes one of a few words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that the command does not have.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
