// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/doctor"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/internal/collectorapi"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/health"
)

// diagnosis is the JSON of doctor.
type diagnosis struct {
	OK        bool             `json:"ok"`     // the exit code is 0
	Config    string           `json:"config"` // the file of settings; empty: there is none, all have their defaults
	Checks    []health.Check   `json:"checks"`
	Collector string           `json:"collector"` // running, absent, or why it does not answer
	Warnings  []health.Warning `json:"warnings"`
}

func newDoctorCommand(opts *commandline.Options) *cobra.Command {
	var ask collectorapi.Flags
	file, strict := "", false
	cmd := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"check", "health", "diagnose"},
		Short:      "Check this machine and the running collector, and say how to fix problems",
		Long: `Check whether this machine has what a collector with these settings needs:
ports, the store's directory and disk, room for bursts of datagrams, the clock,
and certificates with their end. If a collector answers, also check what it
says: the clocks of nodes, datagrams and records that were lost, files that
cannot be read. Each problem has a code and a cure.

Without --config, the settings are those of the service, which are in
/etc/waymark-collector/collector.yaml, or the defaults if that file is not there.
The first line says which file it is.

Exit codes: 0 no errors; 1 errors, or with --strict warnings.`,
		Example: "  waymark-collector doctor\n  waymark-collector doctor --config collector.yaml --strict",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("config") {
				file = serviceSettings()
			}
			s, err := settings.Read(file)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("collector") {
				ask.Address = s.API.URL()
			}
			d, err := diagnose(cmd.Context(), s, &ask)
			if err != nil {
				return err
			}
			d.Config = file
			worst := health.Worst(d.Warnings)
			d.OK = worst != health.Error && (!strict || worst != health.Degraded)
			if opts.JSON {
				err = commandline.PrintJSON(cmd.OutOrStdout(), d)
			} else {
				err = printDiagnosis(commandline.Letters(cmd.OutOrStdout()), d)
			}
			if err == nil && !d.OK {
				return commandline.ErrReported
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "`FILE` of settings (default: the service's, if it is there)")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 on warnings, too")
	ask.Add(cmd)
	return cmd
}

// installedSettings is the file that the service reads.
var installedSettings = "/etc/waymark-collector/collector.yaml"

// serviceSettings is that file; "" if it is not there.
func serviceSettings() string {
	if _, err := os.Stat(installedSettings); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return installedSettings
}

func diagnose(ctx context.Context, s *settings.Settings, ask *collectorapi.Flags) (*diagnosis, error) {
	d := &diagnosis{Collector: "running", Warnings: []health.Warning{}}
	var h query.Health
	err := askHealth(ctx, ask, &h)
	var usage commandline.UsageError
	switch {
	case errors.As(err, &usage) || ctx.Err() != nil:
		return nil, err
	case errors.Is(err, collectorapi.ErrAbsent):
		d.Collector = "absent"
	case err != nil:
		d.Collector = err.Error()
	}
	d.Checks = doctor.Judge(doctor.Read(s, d.Collector != "absent"))
	if err == nil {
		d.Checks = append(d.Checks, doctor.JudgeRunning(&h)...)
	}
	for _, c := range d.Checks {
		if c.Warning != nil {
			d.Warnings = append(d.Warnings, *c.Warning)
		}
	}
	health.Sort(d.Warnings)
	return d, nil
}

func printDiagnosis(w io.Writer, d *diagnosis) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tRESULT\tDETAIL")
	if d.Config == "" {
		fmt.Fprintln(t, "file\tnone\tall settings have their defaults")
	} else {
		fmt.Fprintf(t, "file\tread\t%s\n", d.Config)
	}
	for _, c := range d.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, c.State, c.Detail)
	}
	switch d.Collector {
	case "running":
		fmt.Fprintln(t, "collector\trunning\tit answers")
	case "absent":
		fmt.Fprintln(t, "collector\tabsent\tstart one with 'waymark-collector run'")
	default:
		fmt.Fprintf(t, "collector\tunknown\t%s\n", d.Collector)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(d.Warnings) == 0 {
		_, err := fmt.Fprintln(w, "\nNo problems found.")
		return err
	}
	for i, v := range d.Warnings {
		if i == 0 {
			fmt.Fprintln(w)
		}
		text := strings.ReplaceAll(v.Text, "\n", "\n  ")
		if _, err := fmt.Fprintf(w, "%s: %s: %s\n  %s\n  cure: %s\n", v.Severity, v.Code, v.Title, text, v.Cure); err != nil {
			return err
		}
	}
	return nil
}
