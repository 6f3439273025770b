// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/history"
)

// addHistory adds the commands that ask a collector about the past, each to the group of its noun.
func addHistory(root *cobra.Command, opts *options) {
	for i := range history.Subjects {
		s := &history.Subjects[i]
		group := childNamed(root, s.Noun)
		if group == nil {
			group = commandline.Group(s.Noun, s.Short)
			root.AddCommand(group)
		}
		group.AddCommand(s.Command(&opts.Options))
	}
}

func childNamed(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
