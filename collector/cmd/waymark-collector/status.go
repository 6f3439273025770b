// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
)

// usualURL is where a collector without a file answers.
const usualURL = "http://[::1]:4780"

func newStatusCommand(opts *commandline.Options) *cobra.Command {
	address := usualURL
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
			if err := get(cmd.Context(), address, "/v1/health", nil, &h); err != nil {
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
				return errors.New("the collector has a problem; see the lines that begin with warning")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "collector", address, "`URL` of the collector's API")
	return cmd
}

// statusText is the state for people.
func statusText(h *query.Health) string {
	var b strings.Builder
	row := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, values...)...)
	}
	s := &h.Store
	row("store", "%s, %d files, %d MB; %d MB free", record.Printable(s.Directory), s.Files, s.Bytes/1e6, s.Free/1e6)
	row("since", "%v", s.First)
	row("kept", "%d packets, %d other records", s.Packets, s.Records)
	row("received", "%d records in %d messages", h.Counts["records"], h.Counts["messages"])
	row("written", "%d; %d wait, %d lost", h.Sink["written"], h.Sink["waiting"], h.Sink["dropped"]+h.Sink["lost"])
	row("joining", "%d packets wait for postcards", h.Waiting)
	for _, w := range h.Warnings {
		row("warning", "%s", record.Printable(w))
	}
	return b.String()
}

// mostAnswer bounds an answer of the API.
const mostAnswer = 256 << 20

// get asks a collector.
func get(ctx context.Context, address, path string, ask url.Values, into any) error {
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return commandline.Usagef("--collector %q: want a URL, such as %s", address, usualURL)
	}
	to := base.JoinPath(path)
	to.RawQuery = ask.Encode()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("no collector answers: %w; start it with 'waymark-collector run', or name its address with --collector", err)
	}
	defer response.Body.Close()
	body := io.LimitReader(response.Body, mostAnswer)
	if response.StatusCode != http.StatusOK {
		var failed struct{ Error string }
		if err := json.NewDecoder(body).Decode(&failed); err != nil || failed.Error == "" {
			return fmt.Errorf("%s answers %s; name the address of a collector's API", base, response.Status)
		}
		return errors.New(record.Printable(failed.Error))
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not that of a collector: %w", base, err)
	}
	return nil
}
