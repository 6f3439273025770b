// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// errEnough ends a stream when the wanted number of records has come.
var errEnough = errors.New("enough")

func newObserveCommand(opts *options) *cobra.Command {
	var namespace, source, destination string
	var count int
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Print records as they are made",
		Long: `Print the traces that this node removes from packets, live: a line for the packet,
then one for each node of its path, with the interfaces, the time since the node
before, how long it held the packet, and as many other fields as fit the screen;
"-" is a value that a node could not know. --wide prints all fields, and all
digits of times. With direct exporting, print this node's postcards and flows: a
line for the packet or flow, then one with the node's measurements. At the ingress
of measured SRv6 flows, print their loss and delay. Times are UTC. With --json,
each record is one line.

A slow observer loses records; packets never wait for it. Their number is printed
on standard error: as a sentence, or with --json as an object of the kind "lost".
Without --count the command runs until it is interrupted.`,
		Example: "  waymark observe --destination 2001:db8:2::/64 --count 10",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := observeFilter(namespace, source, destination)
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
			err = c.Observe(cmd.Context(), filter, nil, o.line)
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
	cmd.Flags().StringVar(&namespace, "namespace", "", "only records of this namespace `ID`")
	cmd.Flags().StringVar(&source, "source", "", "only packets from this `PREFIX`")
	cmd.Flags().StringVar(&destination, "destination", "", "only packets to this `PREFIX`")
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
	for _, note := range nothingToObserve(s, filter) {
		fmt.Fprintln(cmd.ErrOrStderr(), "waymark: "+note)
	}
}

// nothingToObserve says why an observer with that filter gets no records.
func nothingToObserve(s api.Status, filter api.RecordFilter) (notes []string) {
	if s.Records.Advice != "" {
		return []string{s.Records.Advice}
	}
	id := filter.Namespace
	hears := s.Records.KernelEvents != nil // whose namespaces are the kernel's
	if id == nil || hears || slices.ContainsFunc(s.Namespaces, func(ns config.Namespace) bool { return ns.ID == *id }) ||
		slices.ContainsFunc(s.Encapsulations, func(e config.Encapsulation) bool { return e.Uses(*id) }) {
		return nil
	}
	var known []string
	for _, ns := range s.Namespaces {
		known = append(known, fmt.Sprint(ns.ID))
	}
	return []string{fmt.Sprintf("namespace %d is not configured here, so no record has it; configured: %s", *id, cmp.Or(strings.Join(known, ", "), "none"))}
}

func observeFilter(namespace, source, destination string) (api.RecordFilter, error) {
	var f api.RecordFilter
	if namespace != "" {
		n, err := strconv.ParseUint(namespace, 0, 16)
		if err != nil {
			return f, commandline.Usagef("--namespace %q: want a number from 0 to 65535", namespace)
		}
		id := ioam.NamespaceID(n)
		f.Namespace = &id
	}
	for _, p := range []struct {
		flag, value string
		prefix      *netip.Prefix
	}{{"source", source, &f.Source}, {"destination", destination, &f.Destination}} {
		if p.value == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(p.value)
		if addr, addrErr := netip.ParseAddr(p.value); addrErr == nil && addr.Zone() == "" {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || !prefix.Addr().Is6() {
			return f, commandline.Usagef("--%s %q: want an IPv6 prefix or address", p.flag, p.value)
		}
		*p.prefix = prefix.Masked()
	}
	return f, nil
}

// observation prints a stream of records.
type observation struct {
	out, notes io.Writer
	json       bool
	left       int // traces still wanted; 0: no limit
	screen     columns.Screen
}

func (o *observation) line(line []byte) error {
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("unknown record from the agent: %w", err)
	}
	if lost, ok := r.(*record.Lost); ok { // of this observer, not about a packet
		return o.lost(line, lost)
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
