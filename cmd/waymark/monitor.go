// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
)

func newMonitorCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:     "monitor",
		Aliases: abbreviations("monitor"),
		Short:   "Print traces as 'ip ioam monitor' prints the kernel's events",
		Long: `Print a line for each trace that this node removes from a packet and, with
kernel-events: true in the configuration, for each that the kernel's own IOAM
fills, as 'ip ioam monitor' (iproute2 6.9) prints them: the namespace, NodeLen,
the trace type with its reserved octet, and the data of all nodes, the newest
first, in hex. 'waymark observe' prints the same traces for people; with --json,
both print the same records.

The command runs until it is interrupted. Records that this observer has lost
are reported on standard error.`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := opts.client()
			if err != nil {
				return err
			}
			noteNothing(cmd, c, api.RecordFilter{})
			m := monitor{observation{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), json: opts.JSON}}
			if opts.JSON {
				err = c.Observe(cmd.Context(), api.RecordFilter{}, nil, m.line)
			} else {
				err = c.Monitor(cmd.Context(), m.line)
			}
			switch {
			case cmd.Context().Err() != nil:
				return cmd.Context().Err()
			case err != nil:
				return err
			}
			return errors.New("the agent has ended")
		},
	}
}

// monitor prints traces alone.
type monitor struct{ observation }

// line prints a line of the agent, which is a record if it is about this observer, or with --json.
func (m *monitor) line(line []byte) error {
	if !bytes.HasPrefix(line, []byte("{")) {
		_, err := fmt.Fprintf(m.out, "%s\n", line)
		return err
	}
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("unknown record from the agent: %w", err)
	}
	switch r := r.(type) {
	case *record.Lost:
		return m.lost(line, r)
	case *record.Trace:
		return m.print(line, r)
	}
	return nil
}
