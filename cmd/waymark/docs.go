// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/docgen"
)

// newDocsCommand is for the project's own build.
func newDocsCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the reference documentation into a directory",
		Hidden: true,
		Args:   commandline.OneArgument("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.Done(cmd.OutOrStdout(), docgen.Write(args[0], cmd.Root()))
		},
	}
}
