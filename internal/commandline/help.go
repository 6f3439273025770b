// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/problem"
)

// newHelpCommand is cobra's own, except that an unknown command is an error, and that other programs explain the
// commands that they carry out.
func newHelpCommand(o *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "List the commands, or explain one",
		Long: `List the commands, or explain one of them. Other words are in the documents:
those of IOAM in docs/glossary.md, keys of the configuration, outcomes, warnings
and metrics in docs/reference.`,
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
				return UsageError{err}
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return noHelp(about, rest[0])
			}
			if to, ok := o.handovers[about]; ok {
				// Without the program, the command says which package has it. In JSON, it is an object of this program's tree.
				if _, missing := Sibling(to.program); len(rest) > 0 || missing == nil && !o.JSON {
					return to.help(rest, o.JSON)
				}
			}
			return about.Help() // rest, if any, is the command's own grammar
		},
	}
}

// noHelp is the error that help is asked for a subject that is no command of the group, with those that are.
func noHelp(group *cobra.Command, subject string) error {
	list := strings.Join(append([]string{group.Root().Name(), "help"}, strings.Fields(group.CommandPath())[1:]...), " ")
	text, cure := unknownCommand(group, subject)
	if cure == "" {
		cure = fmt.Sprintf("help explains commands; list them with '%s'", list)
	} else {
		cure += fmt.Sprintf(" List all commands with '%s'", list)
	}
	return Usage(problem.New(text, cure))
}

// Help is the help of a command as JSON.
type Help struct {
	Command     string     `json:"command"` // with those that it is part of
	Usage       string     `json:"usage,omitempty"`
	Short       string     `json:"short"`
	Long        string     `json:"long,omitempty"`
	Example     string     `json:"example,omitempty"`
	Flags       []flagHelp `json:"flags"`
	GlobalFlags []flagHelp `json:"global_flags,omitempty"` // of the command that was asked for
	Commands    []Help     `json:"commands,omitempty"`
}

// flagHelp is the help of a flag as JSON.
type flagHelp struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`
	Value     string `json:"value,omitempty"` // what help calls its value
	Default   string `json:"default,omitempty"`
	Usage     string `json:"usage"`
}

// helpInJSON is the help that --json asks for: of a command and all below it.
func (o *Options) helpInJSON(text func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		if !o.JSON {
			text(cmd, args)
			return
		}
		help := newHelp(cmd)
		if cmd.HasParent() {
			help.GlobalFlags = newFlagHelp(cmd.InheritedFlags())
		}
		if err := PrintJSON(cmd.OutOrStdout(), help); err != nil {
			cmd.PrintErrln(o.program+":", err)
		}
	}
}

func newHelp(cmd *cobra.Command) Help {
	cmd.InitDefaultHelpFlag()
	help := Help{
		Command: cmd.CommandPath(),
		Short:   cmd.Short,
		Long:    cmd.Long,
		Example: cmd.Example,
		Flags:   newFlagHelp(cmd.NonInheritedFlags()),
	}
	if cmd.Runnable() && !cmd.HasSubCommands() {
		help.Usage = cmd.UseLine()
	}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() || child.Name() == "help" {
			help.Commands = append(help.Commands, newHelp(child))
		}
	}
	return help
}

func newFlagHelp(flags *pflag.FlagSet) []flagHelp {
	list := []flagHelp{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		list = append(list, flagHelp{f.Name, f.Shorthand, f.Value.Type(), value, f.DefValue, usage})
	})
	return list
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
