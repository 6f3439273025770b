// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/replacefile"
)

func newConfigMigrateCommand(opts *options) *cobra.Command {
	write := false
	cmd := &cobra.Command{
		Use:   "migrate FILE",
		Short: "Give the keys of a configuration file the names of this version",
		Long: `Print a configuration file in which keys that have a former name have the one of
this version. The result means the same; comments and layout stay. The former
names are accepted, with a warning of 'config check' and 'doctor', until a later
version ends them. What was renamed is said on standard error. FILE - is
standard input.

With --write, the file is replaced as a whole instead; its owner, group, mode
and extended attributes stay, such as the label of SELinux. The running agent
needs no reload for it, but warns of former names until the next one.

Exit codes: 0 done, also if there was nothing to do; 1 the file has errors, or
cannot be read or written.`,
		Example: "  waymark config migrate node.yaml | diff node.yaml -\n  waymark config migrate /etc/waymark/node.yaml --write",
		Args:    commandline.OneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := args[0]
			if write && file == "-" {
				return commandline.Usage(problem.New("--write replaces a file, and - is standard input", "name the file, or leave out --write"))
			}
			data, err := readConfig(cmd, file)
			if err != nil {
				return err
			}
			text, done, err := config.Migrate(file, data)
			if err != nil {
				return err
			}
			if write && len(done) > 0 {
				if err := replacefile.Edit(file, text); err != nil {
					return problem.Append(err, "the file is as it was")
				}
			}
			if opts.JSON {
				m := migration{File: file, OK: true, Renamed: append(config.Faults{}, done...), Written: write && len(done) > 0}
				if !write {
					m.Text = string(text)
				}
				return commandline.PrintJSON(cmd.OutOrStdout(), m)
			}
			if write {
				return printMigration(cmd.OutOrStdout(), file, done, "written, ")
			}
			if err := printMigration(cmd.ErrOrStderr(), file, done, ""); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "replace the file instead of printing the result")
	return cmd
}

// migration is the JSON of config migrate.
type migration struct {
	File    string        `json:"file"`
	OK      bool          `json:"ok"`
	Renamed config.Faults `json:"renamed"` // with the places that they had
	Written bool          `json:"written"`
	Text    string        `json:"text,omitempty"` // the result, without --write
}

func printMigration(w io.Writer, file string, done config.Faults, written string) error {
	if len(done) == 0 {
		_, err := fmt.Fprintf(w, "%s: no key has a former name: nothing to do\n", file)
		return err
	}
	for _, f := range done {
		if _, err := fmt.Fprintf(w, "%s:%d:%d: %s\n", file, f.Line, f.Column, f.Problem); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s%s renamed\n", file, written, columns.Counted(len(done), "key"))
	return err
}
