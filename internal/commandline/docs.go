// SPDX-License-Identifier: Apache-2.0

package commandline

import "github.com/spf13/cobra"

// NewDocsCommand is for the project's own build: it writes pages of the reference, which it
// gets the command tree for, into a directory.
func (o *Options) NewDocsCommand(write func(directory string, root *cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the reference documentation of this program into a directory",
		Hidden: true,
		Args:   OneArgument("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.Done(cmd.OutOrStdout(), write(args[0], cmd.Root()))
		},
	}
}
