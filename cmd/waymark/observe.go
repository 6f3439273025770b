// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/recordfilter/filterflags"
	"github.com/waymark-net/waymark/ioam"
)

// errEnough ends a stream when the wanted number of records has come.
var errEnough = errors.New("enough")

func newObserveCommand(opts *options) *cobra.Command {
	var filters *filterflags.Flags
	var count int
	cmd := &cobra.Command{
		Use:        "observe",
		SuggestFor: []string{"logs", "log", "watch", "records", "tail"},
		Short:      "Print records as they are made",
		Long: `Print the traces that this node removes from packets, live: a line for the
packet, then one for each node of its path, with the interfaces, the time since
the node before, how long it held the packet, and as many other fields as fit
the screen; "-" is a value that a node could not know. --wide prints all fields,
and all digits of times. With direct exporting, print this node's postcards and
flows: a line for the packet or flow, then one with the node's measurements. At
the ingress of measured SRv6 flows, print their loss and delay. Times are UTC.
With --json, each record is one line.

Flags select records, and --where has a condition on their fields: the names are
the keys of a record with --json. The agent evaluates them, so that only what is
selected comes here. What can select nothing is named at once.

A slow observer loses records; packets never wait for it. Their number is
printed on standard error: as a sentence, or with --json as an object of the
kind "lost". Without --count the command runs until it is interrupted. In the
end, it says on standard error how many records came, how many a second, and how
long traces took.`,
		Example: `  waymark observe --destination 2001:db8:2::/64 --count 10
  waymark observe --min-delay 5ms
  waymark observe --where 'any(nodes, .transit_delay_ns > 1e6)'`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, filter, err := filters.Program(cmd)
			if err != nil {
				return err
			}
			if count < 0 {
				return commandline.Usagef("--count %d: want a number from 0; 0 means no end", count)
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			noteNothing(cmd, c, filter)
			o := observation{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), json: opts.JSON, left: count, screen: opts.View(cmd.OutOrStdout())}
			o.sum.began = time.Now()
			err = c.Observe(cmd.Context(), filter, nil, o.line)
			o.sumUp()
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
	filters = filterflags.Add(cmd)
	filters.Complete(cmd, record.MadeBy("observe"))
	cmd.Flags().IntVar(&count, "count", 0, "end after this `NUMBER` of records")
	opts.AddWide(cmd)
	return cmd
}

// noteNothing says on standard error, at once, why nothing may ever be printed. What is configured may
// change while the command runs, so it goes on. An error here occurs again when it observes.
func noteNothing(cmd *cobra.Command, c *api.Client, filter api.RecordFilter) {
	s, err := c.Status(cmd.Context())
	if err != nil {
		return
	}
	notes := nothingToObserve(cmd.Context(), c, s, filter)
	for _, hint := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "waymark: "+hint)
	}
}

// nothingToObserve says why an observer with that filter gets no records.
func nothingToObserve(ctx context.Context, c *api.Client, s api.Status, filter api.RecordFilter) (notes []string) {
	if s.Records.Advice != "" {
		return []string{s.Records.Advice}
	}
	interfaces := []string{}
	for _, i := range s.Interfaces {
		interfaces = append(interfaces, i.Name)
	}
	return knownHere(ctx, c, s, filter, interfaces).Unmet(filter)
}

// knownHere is what records of this node may have; interfaces are nil where those of others are not known.
func knownHere(ctx context.Context, c *api.Client, s api.Status, filter api.RecordFilter, interfaces []string) *recordfilter.Known {
	known := &recordfilter.Known{Where: "here", Kinds: record.MadeBy("observe"), Interfaces: interfaces}
	if s.Records.KernelEvents == nil { // its namespaces are the kernel's
		known.Namespaces = []ioam.NamespaceID{}
		for _, ns := range s.Namespaces {
			known.Namespaces = append(known.Namespaces, ns.ID)
		}
		if id := filter.Namespace; id != nil && slices.ContainsFunc(s.Encapsulations, func(e config.Encapsulation) bool { return e.Uses(*id) }) {
			known.Namespaces = append(known.Namespaces, *id)
		}
	}
	if filter.Flow != "" {
		if flows, err := c.MeasuredFlows(ctx); err == nil {
			known.Flows = []string{}
			for _, f := range flows {
				known.Flows = append(known.Flows, f.Flow.Name)
			}
		}
	}
	return known
}

// observation prints a stream of records.
type observation struct {
	out, notes io.Writer
	json       bool
	left       int // traces still wanted; 0: no limit
	screen     columns.Screen
	sum        observedSum
}

// sumUp says in the end what came in all.
func (o *observation) sumUp() {
	if text := o.sum.text(time.Now()); text != "" && !o.json {
		fmt.Fprint(o.notes, columns.Fold("waymark: "+text+"\n", o.screen.Width, "  "))
	}
}

func (o *observation) line(line []byte) error {
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("unknown record from the agent: %w", err)
	}
	if lost, ok := r.(*record.Lost); ok { // of this observer, not about a packet
		return o.lost(line, lost)
	}
	if r != nil {
		o.sum.add(r)
	}
	if err := o.print(line, r); err != nil {
		return err
	}
	if r != nil && o.left > 0 {
		if o.left--; o.left == 0 {
			return errEnough
		}
	}
	return nil
}

// lost reports that records are missing here.
func (o *observation) lost(line []byte, lost *record.Lost) error {
	if o.json {
		_, err := fmt.Fprintf(o.notes, "%s\n", line)
		return err
	}
	_, err := fmt.Fprint(o.notes, "waymark: "+lost.Text())
	return err
}

// print writes a record, which is nil when its kind is unknown.
func (o *observation) print(line []byte, r record.Record) (err error) {
	switch {
	case o.json:
		_, err = fmt.Fprintf(o.out, "%s\n", line)
	case r != nil:
		_, err = io.WriteString(o.out, record.Brief(r, o.screen))
	}
	return err
}
