// SPDX-License-Identifier: Apache-2.0

// Package filterflags has the flags that select records, for the commands of all programs.
package filterflags

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/recordfilter"
)

// Flags are the flags of one command.
type Flags struct {
	texts    map[string]*string
	switches map[string]*bool
}

// Add gives a command the flags, or some of them, except those that it has itself.
func Add(cmd *cobra.Command, some ...string) *Flags {
	f := &Flags{map[string]*string{}, map[string]*bool{}}
	for _, s := range recordfilter.Settings {
		switch {
		case len(some) > 0 && !slices.Contains(some, s.Flag):
		case cmd.Flags().Lookup(s.Flag) != nil:
		case s.Switch:
			f.switches[s.Flag] = cmd.Flags().Bool(s.Flag, false, s.Usage)
		default:
			f.texts[s.Flag] = cmd.Flags().String(s.Flag, "", s.Usage)
		}
	}
	return f
}

// Complete offers the kinds that a program makes.
func (f *Flags) Complete(cmd *cobra.Command, kinds []string) {
	commandline.CompleteWords(cmd, "kind", kinds...)
}

// Filter is what the flags say. An error is one of usage.
func (f *Flags) Filter(cmd *cobra.Command) (filter recordfilter.Filter, err error) {
	for _, s := range recordfilter.Settings {
		if text := f.texts[s.Flag]; text != nil && cmd.Flags().Changed(s.Flag) {
			if *text == "" {
				continue // as from an empty variable of a script
			}
			if err := s.Set(&filter, *text); err != nil {
				return filter, commandline.Usagef("--%s %w", s.Flag, err)
			}
		}
		if is := f.switches[s.Flag]; is != nil && *is {
			if err := s.Set(&filter, "true"); err != nil {
				return filter, commandline.Usagef("--%s: %w", s.Flag, err)
			}
		}
	}
	return filter, nil
}

// Program is the filter of the flags, ready to match. An error is one of usage.
func (f *Flags) Program(cmd *cobra.Command) (*recordfilter.Program, recordfilter.Filter, error) {
	filter, err := f.Filter(cmd)
	if err != nil {
		return nil, filter, err
	}
	program, err := filter.Compile()
	if err != nil {
		return nil, filter, commandline.Usagef("--where: %s", strings.TrimSpace(err.Error()))
	}
	return program, filter, nil
}
