// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newHelpCommand is cobra's own, except that an unknown command is an error.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Explain a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, child := range about.Commands() {
				if child.IsAvailableCommand() && strings.HasPrefix(child.Name(), begun) {
					names = append(names, cobra.CompletionWithDesc(child.Name(), child.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return groupRun(about, rest)
			}
			return about.Help() // rest, if any, is the command's own grammar
		},
	}
}

// usageWithoutAliases leaves out the list of aliases: they are abbreviations.
func usageWithoutAliases(usage func(*cobra.Command) error) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		aliases := cmd.Aliases
		defer func() { cmd.Aliases = aliases }()
		cmd.Aliases = nil
		return usage(cmd)
	}
}

// abbreviations are the prefixes by which iproute2 would know a word.
func abbreviations(word string) []string {
	var list []string
	for n := 1; n < len(word); n++ {
		list = append(list, word[:n])
	}
	return list
}

// asksHelp is for commands with iproute2's grammar, where help is a word.
func asksHelp(args []string) bool { return len(args) == 1 && args[0] == "help" }
