// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those whose completion can be written.
var shells = []string{"bash", "zsh", "fish"}

func newCompletionCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: `Print the script that lets a shell complete the words of waymark: for this
session, or in a file that the shell reads when it starts. That for bash needs
the package bash-completion.`,
		Example: `  source <(waymark completion bash)
  waymark completion bash > /etc/bash_completion.d/waymark
  waymark completion zsh > "${fpath[1]}/_waymark"
  waymark completion fish > ~/.config/fish/completions/waymark.fish`,
		Args:                  cobra.MatchAll(oneArgument("SHELL"), knownShell),
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.withoutJSON("the script of a shell"); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch args[0] {
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			default:
				return cmd.Root().GenBashCompletionV2(out, true)
			}
		},
	}
}

func knownShell(_ *cobra.Command, args []string) error {
	if !slices.Contains(shells, args[0]) {
		return usagef("there is no completion for %q; write one of %s", args[0], strings.Join(shells, ", "))
	}
	return nil
}

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
