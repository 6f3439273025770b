// SPDX-License-Identifier: Apache-2.0

package docgen

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// block is a paragraph of a command's description, or lines to show as they
// are, such as a grammar: those that are indented.
type block struct {
	literal bool
	lines   []string // of literal ones, less the indentation
}

const indentation = "  "

// blocks takes a description apart. Literal lines with an empty line between
// belong together.
func blocks(text string) []block {
	var list []block
	for group := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		b := block{lines: strings.Split(group, "\n")}
		b.literal = !slices.ContainsFunc(b.lines, func(l string) bool { return !strings.HasPrefix(l, indentation) })
		if b.literal {
			for i, l := range b.lines {
				b.lines[i] = strings.TrimPrefix(l, indentation)
			}
		}
		if n := len(list); b.literal && n > 0 && list[n-1].literal {
			list[n-1].lines = append(append(list[n-1].lines, ""), b.lines...)
			continue
		}
		list = append(list, b)
	}
	return list
}

// about describes a command.
func about(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// examples are lines to show as they are.
func examples(c *cobra.Command) []string {
	lines := strings.Split(strings.Trim(c.Example, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, indentation)
	}
	return lines
}

// children are the subcommands that help shows.
func children(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.Name() == "help"
	})
}

// option is a flag as documents show it.
type option struct{ name, value, usage string }

// options lists the flags that help shows.
func options(flags *pflag.FlagSet) []option {
	var list []option
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		o := option{name: "--" + f.Name}
		if f.Shorthand != "" {
			o.name = "-" + f.Shorthand + ", " + o.name
		}
		o.value, o.usage = pflag.UnquoteUsage(f)
		if zero := []string{"", "0", "0s", "false", "[]"}; !slices.Contains(zero, f.DefValue) {
			o.usage += " (default: " + f.DefValue + ")"
		}
		list = append(list, o)
	})
	return list
}
