// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// completeFirst offers the words that a command's arguments begin with.
func completeFirst(words ...cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWords lets shells complete a flag that takes one of a few words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that the command does not have.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
