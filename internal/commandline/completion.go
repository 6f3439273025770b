// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/problem"
)

// shells are those whose completion can be written.
var shells = []string{"bash", "zsh", "fish"}

func newCompletionCommand(opts *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: `Print the script that lets a shell complete the words of this program: for this
session, or in a file that the shell reads when it starts. That for bash needs
the package bash-completion.`,
		Example: strings.ReplaceAll(`  source <(PROGRAM completion bash)
  PROGRAM completion bash \
      > /etc/bash_completion.d/PROGRAM
  PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
  PROGRAM completion fish \
      > ~/.config/fish/completions/PROGRAM.fish`, "PROGRAM", opts.program),
		Args:                  cobra.MatchAll(OneArgument("SHELL"), knownShell),
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.WithoutJSON("the script of a shell"); err != nil {
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
		return Usage(problem.New(
			fmt.Sprintf("there is no completion for %q", args[0]),
			fmt.Sprintf("write one of %s", strings.Join(shells, ", ")),
		))
	}
	return nil
}

// Beginning picks the words that begin with what was typed.
func Beginning(words []cobra.Completion, typed string) []cobra.Completion {
	var fitting []cobra.Completion
	for _, w := range words {
		if strings.HasPrefix(w, typed) {
			fitting = append(fitting, w)
		}
	}
	return fitting
}

// Completing offers the words that may follow the arguments, and no files.
func Completing(next func(cmd *cobra.Command, args []string) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return Beginning(next(cmd, args), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFirst offers the words that a command's arguments begin with.
func CompleteFirst(words ...cobra.Completion) cobra.CompletionFunc {
	return Completing(func(_ *cobra.Command, args []string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		return words
	})
}

// CompleteWords completes a flag that takes one of a few words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that the command does not have.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
