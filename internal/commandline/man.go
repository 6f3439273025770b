// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/docgen"
)

func newManCommand(opts *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a directory",
		Long: `Write the manual pages, one for each command, into a directory. They bear the
date of the environment's SOURCE_DATE_EPOCH where that is set, else of today.`,
		Example: "  " + opts.program + " man /usr/local/share/man/man1",
		Args:    OneArgument("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			day := time.Now()
			if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
				seconds, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return Usagef("SOURCE_DATE_EPOCH=%q: want a number of seconds, or leave it unset", text)
				}
				day = time.Unix(seconds, 0)
			}
			return opts.Done(cmd.OutOrStdout(), docgen.WriteMan(args[0], cmd.Root(), version, day))
		},
	}
}
