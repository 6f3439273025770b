// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/access"
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
	Collector string           `json:"collector"` // running, absent, unknown-user (it runs, and does not say how it is), or why it does not answer
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

Without --config, the settings are those of the service: the file
/etc/waymark-collector/collector.yaml. If it is not there, all have their
defaults. The first line says which file it is. For these settings, it is also
checked what systemd lets the service do.

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
			ask.At(s.API.URL(), shownBy(s))
			d, err := diagnose(cmd.Context(), s, &ask, isService(file))
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

// isService reports whether a file has the settings of the service.
func isService(file string) bool {
	one, err := os.Stat(file)
	other, fault := os.Stat(installedSettings)
	return err == nil && fault == nil && os.SameFile(one, other)
}

// shownBy is the certificate that a collector with these settings shows; nil: none, or it cannot be read here.
func shownBy(s *settings.Settings) *x509.Certificate {
	if s.API.Web == "" {
		return nil
	}
	leaf, err := access.Certificate(s.API.Web)
	if err != nil {
		return nil
	}
	return leaf
}

// unknownUser is the state of a collector that runs, and does not let in who asks.
const unknownUser = "unknown-user"

// diagnose checks the machine and the collector. service: it is that of the package.
func diagnose(ctx context.Context, s *settings.Settings, ask *collectorapi.Flags, service bool) (*diagnosis, error) {
	d := &diagnosis{Collector: "running", Warnings: []health.Warning{}}
	var h query.Health
	err := askHealth(ctx, ask, &h)
	var usage commandline.UsageError
	switch {
	case errors.As(err, &usage) || ctx.Err() != nil:
		return nil, err
	case errors.Is(err, collectorapi.ErrAbsent):
		d.Collector = "absent"
	case errors.Is(err, collectorapi.ErrUnknown):
		d.Collector = unknownUser
	case err != nil:
		d.Collector = err.Error()
	}
	var unit *doctor.Unit
	if service {
		unit = doctor.ReadUnit(ctx)
	}
	d.Checks = doctor.Judge(doctor.Read(s, d.Collector != "absent", unit))
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
		fmt.Fprintf(t, "collector\tabsent\tstart one with '%s'\n", commandline.ToStart("waymark-collector", "waymark-collector run"))
	case unknownUser:
		fmt.Fprintln(t, "collector\trunning\tit wants to know who asks: with --user and --password-file, what it says is checked, too")
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
