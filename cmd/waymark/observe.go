// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/ioam"
)

// errEnough ends a stream when the wanted number of records is there.
var errEnough = errors.New("enough")

func newObserveCommand(opts *options) *cobra.Command {
	var namespace, source, destination string
	var count int
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Print traces as they arrive",
		Long: `Print the traces that this node removes from packets, as it does so: the path of
each packet with the time between its nodes. With --json, each is one line.

An observer that is too slow loses traces, and is told how many; packets never
wait for it.`,
		Example: "  waymark observe --destination 2001:db8:2::/64 --count 10",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := observeFilter(namespace, source, destination)
			if err != nil {
				return err
			}
			if count < 0 {
				return usagef("--count %d: want a number from 0; 0 is without end", count)
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			o := observation{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), json: opts.json, left: count}
			err = c.Observe(cmd.Context(), filter, nil, o.line)
			switch {
			case errors.Is(err, errEnough), cmd.Context().Err() != nil:
				return nil
			case err != nil:
				return err
			}
			return errors.New("the agent has ended")
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "only traces of this namespace `ID`")
	cmd.Flags().StringVar(&source, "source", "", "only packets from this `PREFIX`")
	cmd.Flags().StringVar(&destination, "destination", "", "only packets to this `PREFIX`")
	cmd.Flags().IntVar(&count, "count", 0, "end after this `NUMBER` of traces")
	return cmd
}

func observeFilter(namespace, source, destination string) (api.RecordFilter, error) {
	var f api.RecordFilter
	if namespace != "" {
		n, err := strconv.ParseUint(namespace, 0, 16)
		if err != nil {
			return f, usagef("--namespace %q: want a number from 0 to 65535", namespace)
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
			return f, usagef("--%s %q: want an IPv6 prefix or address", p.flag, p.value)
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
	if kind.Kind == "lost" {
		fmt.Fprintf(o.notes, "waymark: %d traces were lost: this observer is too slow\n", kind.Count)
	}
	if err := o.print(line, kind.Kind); err != nil {
		return err
	}
	if kind.Kind == "trace" && o.left > 0 {
		if o.left--; o.left == 0 {
			return errEnough
		}
	}
	return nil
}

func (o *observation) print(line []byte, kind string) error {
	if o.json {
		_, err := fmt.Fprintf(o.out, "%s\n", line)
		return err
	}
	if kind != "trace" {
		return nil
	}
	var r export.TraceRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("the agent's record is not understood: %w", err)
	}
	_, err := io.WriteString(o.out, formatTrace(&r))
	return err
}

// formatTrace writes a trace as a heading and one line for each node.
func formatTrace(r *export.TraceRecord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s → %s, %s, %d bytes, namespace %d%s\n", r.Time.Local().Format("15:04:05.000000"),
		endpoint(r.Packet.Source, r.Packet.SourcePort), endpoint(r.Packet.Destination, r.Packet.DestinationPort),
		upperLayer(r.Packet.NextHeader), r.Packet.Length, r.Namespace, endToEnd(r.Nodes))
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	var last time.Time
	for n, node := range r.Nodes {
		fmt.Fprintf(t, "  %d\t%s\n", n+1, strings.Join(nodeColumns(node, last), "\t"))
		if node.Timestamp.Valid {
			last = node.Timestamp.Value
		}
	}
	t.Flush()
	if r.Overflow {
		b.WriteString("  and further nodes, for which the trace had no room\n")
	}
	return b.String()
}

func endpoint(a netip.Addr, port *uint16) string {
	if port == nil {
		return a.String()
	}
	return netip.AddrPortFrom(a, *port).String()
}

func upperLayer(h ioam.NextHeader) string {
	switch h {
	case ioam.NextHeaderTCP:
		return "tcp"
	case ioam.NextHeaderUDP:
		return "udp"
	case ioam.NextHeaderICMPv6:
		return "icmpv6"
	}
	return fmt.Sprintf("next header %d", h)
}

// endToEnd is the time from the first node that knew it to the last.
func endToEnd(nodes []export.TraceNode) string {
	var first, last time.Time
	known := 0
	for _, n := range nodes {
		if !n.Timestamp.Valid {
			continue
		}
		if known++; known == 1 {
			first = n.Timestamp.Value
		}
		last = n.Timestamp.Value
	}
	if known < 2 {
		return ""
	}
	return fmt.Sprintf(", %v end to end", last.Sub(first))
}

// nodeColumns is what one node wrote; what it could not know is "-". last is
// the time of the node before.
func nodeColumns(n export.TraceNode, last time.Time) []string {
	columns := []string{"node " + either(n.NodeID, n.NodeIDWide)}
	if n.IngressID.Present || n.IngressIDWide.Present {
		columns = append(columns, either(n.IngressID, n.IngressIDWide)+" → "+either(n.EgressID, n.EgressIDWide))
	}
	if n.HopLimit.Present {
		columns = append(columns, "hop limit "+value(n.HopLimit))
	}
	switch {
	case n.Timestamp.Valid && !last.IsZero():
		columns = append(columns, signed(n.Timestamp.Value.Sub(last)))
	case n.Timestamp.Valid:
		columns = append(columns, n.Timestamp.Value.Local().Format("15:04:05.000000"))
	case n.Timestamp.Present:
		columns = append(columns, "-")
	}
	switch {
	case n.TransitDelayOverflow:
		columns = append(columns, "held over 2s")
	case n.TransitDelay.Valid:
		columns = append(columns, "held "+time.Duration(n.TransitDelay.Value).String())
	case n.TransitDelay.Present:
		columns = append(columns, "held -")
	}
	return append(columns, extras(n)...)
}

// signed puts a sign before a duration, also before a positive one.
func signed(d time.Duration) string {
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

// extras are fields that few traces have, and only those with a value.
func extras(n export.TraceNode) []string {
	var out []string
	if n.QueueDepth.Valid {
		out = append(out, fmt.Sprintf("queue %d", n.QueueDepth.Value))
	}
	if n.BufferOccupancy.Valid {
		out = append(out, fmt.Sprintf("buffer %d", n.BufferOccupancy.Value))
	}
	if n.NamespaceData.Valid {
		out = append(out, fmt.Sprintf("data %v", n.NamespaceData.Value))
	}
	if n.NamespaceDataWide.Valid {
		out = append(out, fmt.Sprintf("wide %v", n.NamespaceDataWide.Value))
	}
	if n.ChecksumComplement.Valid {
		out = append(out, fmt.Sprintf("checksum %v", n.ChecksumComplement.Value))
	}
	if n.Snapshot.Valid {
		out = append(out, fmt.Sprintf("schema %d %q", n.Snapshot.Value.Schema, strings.TrimRight(string(n.Snapshot.Value.Data), "\x00")))
	}
	return out
}

func value[T any](f export.Field[T]) string {
	if !f.Valid {
		return "-"
	}
	return fmt.Sprint(f.Value)
}

// either is the short form of a value, else the wide one.
func either[T, U any](short export.Field[T], wide export.Field[U]) string {
	if short.Valid {
		return value(short)
	}
	return value(wide)
}
