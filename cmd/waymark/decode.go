// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/decode"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/recordfilter/filterflags"
	"github.com/waymark-net/waymark/ioam"
)

func newDecodeCommand(opts *options) *cobra.Command {
	format, namesFile := "posix", ""
	taiOffset := 37 * time.Second
	var filters *filterflags.Flags
	cmd := &cobra.Command{
		Use:        "decode FILE...",
		SuggestFor: []string{"pcap", "read", "dump", "tcpdump"},
		Short:      "Show the IOAM options in packet captures",
		Long: `Show the IOAM options in packet captures (pcap and pcapng, also
compressed with gzip; Ethernet with up to two VLAN tags, raw IP, and Linux
cooked). FILE - is standard input.

The command examines the Hop-by-Hop and Destination Options headers of each
packet and of the IPv6 packets that it tunnels. A packet with a direct export
has only the list of fields to export; "waymark collect" receives the exports.

Flags select records, and --where has a condition on their fields: the names are
the keys of a record with --json.

A packet does not say in which format its timestamps are: set
--timestamp-format. If most timestamps of a file are far from the times of
capture, a message says so.

Memory is bounded, whatever a file claims: a packet has at most 4 MiB, a section
of pcapng at most 16384 interfaces, and decoding stops after 256 MiB without a
packet.

Errors are reported on standard error with packet and offset; decoding
continues, and the exit code is 1. When interrupted, the command decodes for one
more second what still arrives.`,
		Example: `  waymark decode capture.pcapng
  tcpdump -i eth1 -w - ip6 | waymark decode --json -
  waymark decode --where 'any(nodes, .node_id == 2)' capture.pcapng`,
		Args: commandline.SomeArguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			clock := record.Clock{TAIOffset: taiOffset}
			if err := clock.Format.UnmarshalText([]byte(format)); err != nil {
				return commandline.Usagef("--timestamp-format: %w", err)
			}
			names, err := readNames(namesFile)
			if err != nil {
				return err
			}
			program, filter, err := filters.Program(cmd)
			if err != nil {
				return err
			}
			known := recordfilter.Known{Where: "from a capture", Kinds: record.MadeBy("decode")}
			for _, hint := range known.Unmet(filter) {
				fmt.Fprintln(cmd.ErrOrStderr(), "waymark: "+hint)
			}
			return decodeFiles(cmd, args, clock, names, recordfilter.NewSieve(program), opts)
		},
	}
	cmd.Flags().StringVar(&format, "timestamp-format", format, "`FORMAT` of the timestamps: posix, ptp or ntp")
	cmd.Flags().DurationVar(&taiOffset, "tai-offset", taiOffset, "`TIME` that TAI is ahead of UTC, for ptp")
	cmd.Flags().StringVar(&namesFile, "names", "", "`FILE` with the names of nodes: that of a node with names")
	opts.AddWide(cmd)
	commandline.CompleteWords(cmd, "timestamp-format", "posix", "ptp", "ntp")
	filters = filterflags.Add(cmd)
	filters.Complete(cmd, record.MadeBy("decode"))
	return cmd
}

// readNames are the names in the file of a node, also its own where it gives its ids.
func readNames(file string) (*nodenames.Names, error) {
	if file == "" {
		return nil, nil
	}
	data, err := config.Read(file)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(file, data)
	if err != nil {
		return nil, err
	}
	return c.KnownNames(), nil
}

func decodeFiles(
	cmd *cobra.Command,
	files []string,
	clock record.Clock,
	names *nodenames.Names,
	selected *recordfilter.Sieve,
	opts *options,
) error {
	screen := opts.View(cmd.OutOrStdout())
	out := bufio.NewWriter(cmd.OutOrStdout())
	var line []byte
	write := func(r record.Record) (err error) {
		if t, ok := r.(*record.Trace); ok {
			t.Name(names)
		}
		if !selected.Passes(r) {
			return nil
		}
		if opts.JSON {
			line = record.AppendLine(line[:0], r)
			_, err = out.Write(line)
		} else {
			_, err = out.WriteString(record.Brief(r, screen))
		}
		return err
	}
	writeNow := func(r record.Record) error {
		return errors.Join(write(r), out.Flush())
	}
	var notes notes
	notes.to = cmd.ErrOrStderr()
	for _, file := range files {
		emit := write
		if file == "-" { // the capture may still be running
			emit = writeNow
		}
		err := decodeFile(cmd, file, clock, emit, &notes)
		if flushErr := out.Flush(); err == nil && flushErr != nil {
			err = fmt.Errorf("write the records: %w", flushErr)
		}
		if err != nil {
			return err
		}
	}
	if hint := selected.LeftOut(); hint != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "waymark: "+hint)
	}
	return notes.err()
}

// notes reports what cannot be decoded, as it is found.
type notes struct {
	to    io.Writer
	first string
	count int
}

func (n *notes) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n.count++; n.count == 1 {
		n.first = text
	}
	fmt.Fprintf(n.to, "waymark: %s\n", text)
}

// err summarizes the notes; nil when there are none.
func (n *notes) err() error {
	switch n.count {
	case 0:
		return nil
	case 1:
		return notedError{n.first}
	}
	return notedError{fmt.Sprintf("%s; and %d more on standard error", n.first, n.count-1)}
}

// decodeFile decodes a file, and notes what cannot be decoded; its error is that of the
// output or the context.
func decodeFile(cmd *cobra.Command, file string, clock record.Clock, emit func(record.Record) error, notes *notes) error {
	stderr := cmd.ErrOrStderr()
	name, source := file, io.Reader(nil)
	if file == "-" {
		name, source = "standard input", cmd.InOrStdin()
	} else {
		f, err := openInput(cmd.Context(), file)
		if ended := cmd.Context().Err(); ended != nil && errors.Is(err, ended) {
			return err
		} else if err != nil {
			notes.add("%v; name a capture that can be read", err)
			return nil
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			notes.add("%s is a directory; name the captures in it", file)
			return nil
		}
		source = f
	}
	in := newInput(cmd.Context(), source)
	defer in.Close()
	report := func(err error) {
		if !in.interrupted {
			notes.add("%s: %v", name, err)
		}
	}
	summary, complete, err := decode.Capture(in, clock, emit, report)
	switch {
	case err != nil:
		return fmt.Errorf("write the records: %w", err)
	case in.interrupted:
		return cmd.Context().Err()
	}
	if complete && summary.Records == 0 && len(summary.Others) == 0 {
		fmt.Fprintf(stderr, "waymark: %s: %s, and none has IOAM\n", name, columns.Counted(summary.Packets, "packet"))
	}
	for _, kind := range slices.Sorted(maps.Keys(summary.Others)) {
		fmt.Fprintf(
			stderr,
			"waymark: %s: %d %v options are not shown: only traces and direct exports are\n",
			name,
			summary.Others[kind],
			ioam.IOAMType(kind),
		)
	}
	if remark := summary.Times.Remark(); remark != "" {
		fmt.Fprintf(stderr, "waymark: %s: %s\n", name, remark)
	}
	return nil
}
