// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/daemon"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/journal"
	"github.com/waymark-net/waymark/internal/supervisor"
)

func newRunCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Receive and keep what nodes export, and answer questions about it",
		Long: `Receive IPFIX, join the postcards of each packet into its path, keep the results
in a store, and answer questions about them over HTTP. The command runs until it
is interrupted (Ctrl-C, SIGTERM), and reports to the service manager.

Without --config, exporters of this machine are received on UDP and TCP port
4739, the store is in /var/lib/waymark and keeps 30 days, and questions are
answered on http://[::1]:4780. 'waymark-collector config show' prints these
settings as a file.

What was received is kept within a second; a packet that waits for postcards of
other nodes, when its wait is over (join.wait, after an outage join.hold). A
process that is killed loses what it has not kept yet, and nothing else. When
the disk is full, the oldest files leave; when there are none, nothing is
written and questions are still answered.`,
		Example: "  waymark-collector run\n  waymark-collector run --config /etc/waymark-collector/collector.yaml",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := settings.Read(file)
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			d := daemon.Daemon{
				Settings: s, Notify: notifier(stderr),
				Manager: supervisor.New(slog.New(journal.Handler(stderr, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }))),
			}
			return d.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "`FILE` of settings (default: none, all have their defaults)")
	return cmd
}

// notifier writes lines for the operator.
func notifier(stderr io.Writer) func(level slog.Level, text string) {
	return journal.Notifier(stderr, "waymark-collector")
}

// checkAccess reads what the settings name to let users in.
func checkAccess(s *settings.Settings) error {
	who, err := s.Access(nil)
	if err != nil {
		return err
	}
	_, err = access.New(who)
	return err
}

func newConfigCommand(opts *commandline.Options) *cobra.Command {
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Report every error in a file of settings",
		Long: "Report every error in a file of settings with its line, its column and a cure.\n\nExit codes: 0 no errors; 1 " +
			"errors, or the file cannot be read.",
		Example: "  waymark-collector config check /etc/waymark-collector/collector.yaml",
		Args:    commandline.OneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := settings.Read(args[0])
			if err == nil {
				_, err = s.Collect() // reads the certificates
			}
			if err == nil {
				err = checkAccess(s)
			}
			if err != nil {
				return err
			}
			if opts.JSON {
				return opts.Done(cmd.OutOrStdout(), nil)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no errors\n", args[0])
			return err
		},
	}
	show := &cobra.Command{
		Use:     "show [FILE]",
		Short:   "Print a file of settings with every default filled in",
		Long:    "Print a file of settings with every default filled in; without FILE, all\ndefaults.",
		Example: "  waymark-collector config show > collector.yaml",
		Args:    commandline.AtMostOne("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) == 1 {
				file = args[0]
			}
			s, err := settings.Read(file)
			switch {
			case err != nil:
				return err
			case opts.JSON:
				return commandline.PrintJSON(cmd.OutOrStdout(), s)
			}
			_, err = cmd.OutOrStdout().Write(s.Marshal())
			return err
		},
	}
	return commandline.Group("config", "Check and show files of settings", check, show)
}
