// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/problem"
)

// NoArguments refuses arguments.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(problem.New(
			fmt.Sprintf("%s takes no argument, but got %q", cmd.CommandPath(), args[0]),
			fmt.Sprintf("see '%s --help'", cmd.CommandPath()),
		))
	}
	return nil
}

// OnlyFlag refuses arguments, for a command where one was probably meant as
// the value of this flag.
func OnlyFlag(flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || cmd.Flags().Changed(flag) {
			return NoArguments(cmd, args)
		}
		return Usage(problem.New(fmt.Sprintf("%s takes no argument", cmd.CommandPath()), fmt.Sprintf("use --%s %s", flag, args[0])))
	}
}

// OneArgument wants exactly one, and calls it name.
func OneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := SomeArguments(name)(cmd, args); err != nil {
			return err
		}
		return AtMostOne(name)(cmd, args)
	}
}

// AtMostOne wants one argument or none.
func AtMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return Usage(problem.New(
				fmt.Sprintf("%s takes one %s, but got %d: %s", cmd.CommandPath(), name, len(args), strings.Join(args, " ")),
				fmt.Sprintf("see '%s --help'", cmd.CommandPath()),
			))
		}
		return nil
	}
}

// noEmptyValues refuses flags that were given an empty value, as an unset variable
// of a script gives: what it would have named is not the default.
func noEmptyValues(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		} else if f.Value.Type() != "string" {
			return
		}
		if err == nil && slices.Contains(values, "") {
			err = Usage(problem.New(fmt.Sprintf("--%s has an empty value", f.Name), fmt.Sprintf("give one, or remove --%s%s", f.Name, without(f))))
		}
	})
	return err
}

// without says what holds without a flag.
func without(f *pflag.Flag) string {
	if _, ok := f.Value.(pflag.SliceValue); ok || f.DefValue == "" {
		return ""
	}
	return " for " + f.DefValue
}

// SomeArguments wants at least one.
func SomeArguments(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage(problem.New(fmt.Sprintf("%s is missing", name), fmt.Sprintf("see '%s --help'", cmd.CommandPath())))
		}
		return nil
	}
}

// elsewhere finds the commands below the direct children of cmd that have this
// name, as one types them.
func elsewhere(cmd *cobra.Command, name string) []string {
	var found []string
	for _, group := range cmd.Commands() {
		for _, child := range group.Commands() {
			if child.Name() == name && child.IsAvailableCommand() {
				found = append(found, fmt.Sprintf("'%s'", child.CommandPath()))
			}
		}
	}
	return found
}
