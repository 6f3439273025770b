// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/bench/experiments"
	"github.com/waymark-net/waymark/internal/commandline"
)

func newExecutedCommand(opts *commandline.Options) *cobra.Command {
	var file string
	var lines bool
	cmd := &cobra.Command{
		Use:   "executed",
		Short: "Count what programs execute for packets that are forwarded fast",
		Long: `Count the instructions, cache lines and calls of the kernel that our programs
and bare prototypes of the same work take for one packet. An interpreter
executes what the kernel's verifier made of them, and the packets are compared
with those that the kernel makes: the counts are the same in every run, on a
busy machine, too.`,
		Example: "  waymark-bench executed\n  waymark-bench executed --json",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := experiments.Executed()
			if err != nil {
				return err
			}
			if file != "" {
				var table bytes.Buffer
				if _, err := experiments.InstructionsOf(list).WriteTo(&table); err != nil {
					return err
				}
				return opts.Done(cmd.OutOrStdout(), os.WriteFile(file, table.Bytes(), 0o644))
			}
			if opts.JSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
			}
			if lines {
				return experiments.WriteLines(cmd.OutOrStdout(), list)
			}
			return experiments.WriteExecuted(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&lines, "lines", false, "print how many instructions are of each line of the source")
	cmd.Flags().StringVar(&file, "table", "", "write the table that the tests compare with into `FILE` instead")
	return cmd
}
