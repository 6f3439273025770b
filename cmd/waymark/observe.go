// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// errEnough ends a stream when the wanted number of records is there.
var errEnough = errors.New("enough")

func newObserveCommand(opts *options) *cobra.Command {
	var namespace, source, destination string
	var count int
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Print records as they arise",
		Long: `Print the traces that this node removes from packets, as it does so: a line for
the packet, then one for each node of its path, with the interfaces, the time
since the node before, and what else the trace has; "-" is what a node could not
know. Of direct exporting, print this node's postcards and flows: a line for the
packet or flow, then one for what the node measured. Times are UTC. With --json,
each record is one line.

An observer that is too slow loses records; packets never wait for it. Standard
error has how many: a sentence, or with --json an object of the kind "lost".
Without --count it goes on until it is interrupted.`,
		Example: "  waymark observe --destination 2001:db8:2::/64 --count 10",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := observeFilter(namespace, source, destination)
			if err != nil {
				return err
			}
			if count < 0 {
				return commandline.Usagef("--count %d: want a number from 0; 0 is without end", count)
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			// What fails here fails again below.
			if s, err := c.Status(cmd.Context()); err == nil && removesNothing(s) {
				fmt.Fprintln(cmd.ErrOrStderr(), "waymark: this node removes no traces, so none will come: it has neither decapsulations nor a namespace with remove, or with export for Direct Exports; observe where the domain ends")
			}
			o := observation{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), json: opts.JSON, left: count}
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
	return cmd
}

// removesNothing tells that no packet's traces end at this node, and that it
// neither exports anything nor hears the kernel's events.
func removesNothing(s api.Status) bool {
	return len(s.Decapsulations) == 0 && s.Records.KernelEvents == nil &&
		!slices.ContainsFunc(s.Namespaces, func(ns config.Namespace) bool { return ns.Remove || ns.Export != model.ExportNone })
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
	left       int // traces still wanted; 0 is without end
}

func (o *observation) line(line []byte) error {
	var kind struct {
		Kind  string `json:"kind"`
		Count uint64 `json:"count"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("the agent's record is not understood: %w", err)
	}
	if kind.Kind == api.KindLost { // of this observer, and no record
		return o.lost(line, kind.Count)
	}
	known, err := o.print(line)
	if err != nil {
		return err
	}
	if known && o.left > 0 {
		if o.left--; o.left == 0 {
			return errEnough
		}
	}
	return nil
}

// lost says that records are missing here.
func (o *observation) lost(line []byte, count uint64) error {
	if o.json {
		_, err := fmt.Fprintf(o.notes, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintf(o.notes, "waymark: %d records were lost: this observer is too slow\n", count)
	return err
}

// print writes a record; known tells whether the line is one.
func (o *observation) print(line []byte) (known bool, err error) {
	r, err := export.ParseRecord(line)
	if err != nil {
		return false, fmt.Errorf("the agent's record is not understood: %w", err)
	}
	if o.json {
		_, err = fmt.Fprintf(o.out, "%s\n", line)
	} else if r != nil {
		_, err = io.WriteString(o.out, r.Text())
	}
	return r != nil, err
}
