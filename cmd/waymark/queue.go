// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
)

func newQueueCommand(opts *options) *cobra.Command {
	interval, count := time.Second, 0
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Measure how long packets wait in the queues of the served interfaces",
		Long: `Measure how long packets wait in the queues of the interfaces that the running
agent serves, and print a table after each interval, the longest wait first:
from the egress hook of traffic control until the driver has the packet. The
wait in this node's queue is part of the next node's segment in traces.

Packets that a socket paces, such as TCP's own, are not timed, nor are those
that forward fast in XDP, which pass no queue. DROPPED is what the kernel
counts. Queues are measured as long as the command runs (Linux 6.6 or newer),
which costs about 6% of what the stack forwards; queue-delay in the
configuration measures them always, or while the kernel says that one drops
packets or stays full, for metrics and events.`,
		Example: `  waymark queue
  waymark queue --interval 10s --count 6`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < time.Second || interval > time.Hour {
				return commandline.Usage(problem.New(fmt.Sprintf("--interval %v is not possible", interval), "use 1s to 1h"))
			}
			if count < 0 {
				return commandline.Usage(problem.New(fmt.Sprintf("--count %d is not possible", count), "use a number from 0"))
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			printed := 0
			err = c.Queues(cmd.Context(), interval, func(q api.Queues) error {
				if err := opts.printQueues(cmd.OutOrStdout(), q); err != nil {
					return err
				}
				if printed++; printed == count {
					return errEnough
				}
				return nil
			})
			switch {
			case errors.Is(err, errEnough):
				return nil
			case cmd.Context().Err() != nil:
				return cmd.Context().Err()
			case err != nil:
				return err
			}
			return errors.New("the agent has ended")
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", interval, "`TIME` between two tables, 1s to 1h")
	cmd.Flags().IntVar(&count, "count", count, "end after `N` tables; 0: never")
	return cmd
}

func (o *options) printQueues(w io.Writer, q api.Queues) error {
	if o.JSON {
		return json.NewEncoder(w).Encode(q)
	}
	return writeQueues(commandline.Letters(w), q)
}

// writeQueues fits 80 columns.
func writeQueues(w io.Writer, q api.Queues) error {
	text := fmt.Sprintf("%-15s %9s %8s %8s %8s %8s %8s %8s\n", "INTERFACE", "PACKETS", "UNTIMED", "DROPPED", "P50", "P95", "P99", "MAX")
	for _, in := range q.Interfaces {
		text += fmt.Sprintf("%-15s %9d %8d %8d %8s %8s %8s %8s", in.Interface, in.Packets, in.Untimed, in.Dropped,
			waited(in.P50), waited(in.P95), waited(in.P99), waited(in.Max))
		if in.Unfit {
			text += "\n  its queue (etf, taprio, gred) reads what timed packets carry: none is timed"
		}
		text += "\n"
	}
	if q.Fault != "" {
		text += "not measured, or not everywhere: " + q.Fault + "\n"
	} else if len(q.Interfaces) == 0 {
		text += "no interface is served; add one under interfaces in the configuration file\n"
	}
	_, err := io.WriteString(w, text+"\n")
	return err
}

// waited is a time with three digits.
func waited(ns *int64) string {
	if ns == nil {
		return "-"
	}
	return columns.Duration(time.Duration(*ns))
}
