// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/agent"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
)

func newConfigCommand(opts *options) *cobra.Command {
	cmd := commandline.Group("config", "Check, show and migrate configuration files", newConfigCheckCommand(opts),
		newConfigShowCommand(opts), newConfigMigrateCommand(opts))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && (args[0] == "-" || strings.ContainsAny(args[0], "./")) {
			return commandline.Usage(problem.New(
				fmt.Sprintf("%q is not a command of %q", args[0], cmd.CommandPath()),
				fmt.Sprintf("use '%s check %s'", cmd.CommandPath(), args[0]),
			))
		}
		return commandline.GroupRun(cmd, args)
	}
	return cmd
}

func newConfigCheckCommand(opts *options) *cobra.Command {
	var elsewhere bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Report every error in a configuration file",
		Long: `Report every error in a configuration file with its line, its column and a cure.
FILE - is standard input. Files of keys and for TLS that it names must be there
and usable, as for an agent that starts. With --elsewhere, the file is for
another machine: those that are not here are only warnings on standard error. So
are, for any user but root, those that this user may not read. The command does
not check whether interfaces exist: unless the file is strict, an agent waits
for them. Problems that the configuration has on any machine, such as a rule
that inserts a namespace that the node does not know, are printed on standard
error, too. With --json, errors ("faults"), warnings and these problems
("advice") are part of the result on standard output.

Exit codes: 0 no errors; 1 errors, or the file cannot be read.`,
		Example: "  waymark config check /etc/waymark/node.yaml\n  waymark config check --elsewhere node-of-another-machine.yaml",
		Args:    commandline.OneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readConfig(cmd, args[0])
			if err != nil {
				return err
			}
			c, unread, err := config.Check(args[0], data, elsewhere)
			var faults config.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			var advice []health.Warning
			if c != nil {
				advice = agent.Foresee(c)
			}
			if opts.JSON {
				return printCheck(cmd.OutOrStdout(), args[0], c, faults, unread, advice)
			}
			for _, f := range unread {
				warning := *f
				warning.Problem = "warning: " + f.Problem
				fmt.Fprintln(cmd.ErrOrStderr(), &warning)
			}
			for _, w := range advice {
				fmt.Fprintln(cmd.ErrOrStderr(), &config.Fault{File: args[0], Problem: fmt.Sprintf("%s: %s", w.Severity, w.Text), Cure: w.Cure})
			}
			if c != nil {
				fmt.Fprintf(
					cmd.OutOrStdout(),
					"%s: no errors; %s, %s, %s, %s, %s\n",
					args[0],
					columns.Counted(len(c.Interfaces), "interface"),
					columns.Counted(len(c.Namespaces), "namespace"),
					columns.Counted(
						len(c.Encapsulations),
						"encapsulation",
					),
					columns.Counted(len(c.Decapsulations), "decapsulation"),
					columns.Counted(len(c.Flows), "measured flow"),
				)
			}
			if len(faults) > 0 {
				return faults
			}
			if c != nil && c.Node.Mode == config.ModeObserve {
				printObserving(cmd.OutOrStdout(), args[0], c.StillActive())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&elsewhere, "elsewhere", false, "the file is for another machine: files that it names need not be here")
	return cmd
}

// printObserving says what node.mode: observe means for a file.
func printObserving(w io.Writer, file string, active []string) {
	fmt.Fprintf(w, "%s: mode observe: no packet is changed; 'waymark agent run --config %s --dry-run' says what would be done\n", file, file)
	if len(active) > 0 {
		fmt.Fprintf(w, "%s: mode observe: at work as in mode full: %s\n", file, strings.Join(active, ", "))
	}
}

// checkResult is the JSON of config check; with errors, it has the keys of a
// failure.
type checkResult struct {
	Kind     string        `json:"kind,omitempty"`
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Error    string        `json:"error,omitempty"`
	Faults   config.Faults `json:"faults,omitempty"`
	Warnings config.Faults `json:"warnings,omitempty"` // files that only the agent's machine, or its user, can read

	Advice []health.Warning `json:"advice,omitempty"` // on any machine

	Mode        string   `json:"mode,omitempty"` // observe
	StillActive []string `json:"still_active,omitempty"`
}

func printCheck(w io.Writer, file string, c *config.Config, faults, warnings config.Faults, advice []health.Warning) error {
	if len(faults) == 0 {
		result := checkResult{File: file, OK: true, Warnings: warnings, Advice: advice}
		if c != nil && c.Node.Mode == config.ModeObserve {
			result.Mode, result.StillActive = string(c.Node.Mode), c.StillActive()
		}
		return commandline.PrintJSON(w, result)
	}
	f := newFailure(faults)
	if err := commandline.PrintJSON(w, checkResult{Kind: f.Kind, File: file, Error: f.Error, Faults: f.Faults,
		Warnings: warnings}); err != nil {
		return err
	}
	return commandline.ErrReported
}

func newConfigShowCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "Print a configuration file with every default filled in",
		Args:  commandline.OneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readConfig(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := config.Parse(args[0], data)
			switch {
			case err != nil:
				return err
			case opts.JSON:
				return commandline.PrintJSON(cmd.OutOrStdout(), c)
			}
			_, err = cmd.OutOrStdout().Write(c.Marshal())
			return err
		},
	}
}

// readConfig reads a configuration file; - is standard input. It ends with the command, because a
// terminal or a named pipe may never send anything.
func readConfig(cmd *cobra.Command, file string) ([]byte, error) {
	type input struct {
		data []byte
		err  error
	}
	read := make(chan input, 1)
	go func() {
		var in input
		if file != "-" {
			in.data, in.err = config.Read(file)
		} else if in.data, in.err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), config.MaxFileSize+1)); in.err != nil {
			in.err = fmt.Errorf("read standard input: %w", in.err)
		}
		read <- in
	}()
	select {
	case in := <-read:
		return in.data, in.err
	case <-cmd.Context().Done():
		return nil, cmd.Context().Err()
	}
}
