// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/collectorapi"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

func newStatusCommand(opts *commandline.Options) *cobra.Command {
	var ask collectorapi.Flags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running collector",
		Long: `Show the state of a running collector: its files, the disk, records that were
lost, and what is wrong.

Exit codes: 0 everything is written and can be read; 1 something is wrong, or no
collector answers.`,
		Example: "  waymark-collector status\n  waymark-collector status --json",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var h query.Health
			if err := askHealth(cmd.Context(), &ask, &h); err != nil {
				return err
			}
			if opts.JSON {
				if err := commandline.PrintJSON(cmd.OutOrStdout(), &h); err != nil || h.OK {
					return err
				}
				return commandline.ErrReported
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), statusText(&h)); err != nil {
				return err
			}
			if !h.OK {
				return problem.New("the collector has a problem", "see the lines that begin with warning")
			}
			return nil
		},
	}
	ask.Add(cmd)
	return cmd
}

// mostTime is how long a collector may take to say how it is.
const mostTime = 2 * time.Minute

// askHealth asks a collector how it is.
func askHealth(ctx context.Context, of *collectorapi.Flags, into *query.Health) error {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	c, err := of.Client()
	if err != nil {
		return err
	}
	return c.Ask(ctx, "/v1/health", nil, into)
}

// statusText is the state for people.
func statusText(h *query.Health) string {
	var b strings.Builder
	row := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, values...)...)
	}
	s := &h.Store
	row("store", "%s, %s, %d MB; %d MB free", record.Printable(s.Directory), columns.Counted(s.Files, "file"), s.Bytes/1e6, s.Free/1e6)
	row("packed", "%d of these files; %d MB saved since the collector began", s.Packed, s.Saved/1e6)
	row("since", "%v", s.First)
	row("kept", "%d packets, %d other records", s.Packets, s.Records)
	row("received", "%d records in %d messages", h.Counts["records"], h.Counts["messages"])
	row("written", "%d; %d wait, %d lost", h.Sink["written"], h.Sink["waiting"], h.Sink["dropped"]+h.Sink["lost"])
	if h.Waiting == 1 {
		row("joining", "1 packet waits for postcards")
	} else {
		row("joining", "%d packets wait for postcards", h.Waiting)
	}
	for _, w := range h.Warnings {
		row("warning", "%s", problem.OneLine(w))
	}
	return b.String()
}
