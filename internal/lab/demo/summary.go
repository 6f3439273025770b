// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/record"
)

// result is the demo's last line as JSON: for packets with a trace, then for packets
// with a Direct Export.
type result struct {
	Kind              string `json:"kind"`   // always "demo"
	Traced            int    `json:"traced"` // packets
	Delivered         int    `json:"delivered"`
	IOAMAtBeta        int    `json:"ioam_bytes_at_beta"` // in packets of both kinds
	Exported          int    `json:"exported"`           // packets
	Joined            int    `json:"joined"`
	ExportedDelivered int    `json:"exported_delivered"`
	Links             []link `json:"links"` // of SRv6 flows
}

// conclude prints the summary and gives the verdict.
func (s *session) conclude() error {
	traced := s.records.packets()
	exported, totals := s.joined.seen()
	delivered := s.arrived.delivered(traced, exported)
	_, _, residue, _ := s.arrived.snapshot()
	complete, partial := s.joined.counts()
	r := result{"demo", len(traced), delivered[0], residue, s.joined.exported, complete, delivered[1], s.losses.links}
	s.judge(r, partial)
	s.faults = append(s.faults, s.losses.judge()...)
	s.show.heading("Summary")
	injected, measured := sum(r.Links)
	s.tables(r)
	s.summarise(r, append(totals, s.records.delays()...))
	switch {
	case s.show.json:
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		s.show.write(append(line, '\n'))
	case s.show.terminal:
		colour := green
		if len(s.faults) > 0 {
			colour = red
		}
		s.show.line(
			"%s",
			s.show.paint(
				colour,
				fmt.Sprintf(
					"%d packets carried a trace and %d a Direct Export, of which %d were joined into paths; %d and %d were delivered; %d "+
						"bytes of IOAM left the domain.",
					r.Traced,
					r.Exported,
					r.Joined,
					r.Delivered,
					r.ExportedDelivered,
					residue,
				),
			),
		)
		s.show.line("%s", s.show.paint(colour, fmt.Sprintf("%d packets were lost on purpose, and %d measured as lost.", injected, measured)))
	default:
		s.show.line("demo: links=%d lost=%d measured=%d", len(r.Links), injected, measured)
		s.show.line("demo: exported=%d joined=%d delivered=%d", r.Exported, r.Joined, r.ExportedDelivered)
		s.show.line("demo: traced=%d delivered=%d ioam_bytes_at_beta=%d", r.Traced, r.Delivered, residue)
	}
	return errors.Join(s.faults...)
}

// tables show the nodes and the links.
func (s *session) tables(r result) {
	if nodes := s.show.hops.table(s.show.screen); nodes != "" {
		s.show.line("Nodes, of all paths: how long each held packets, and how long these took to the next\n%s", nodes)
	}
	if len(r.Links) > 0 {
		s.show.line("Links of the SRv6 network: what the lab lost, and what the agents measured\n%s", table(r.Links, s.show.screen))
	}
}

// judge notes every error.
func (s *session) judge(r result, partial int) {
	_, _, _, truncated := s.arrived.snapshot()
	_, marked, _, _ := s.inside.snapshot()
	if r.Traced == 0 {
		s.fault("no packet carried a trace")
	}
	if r.Delivered != r.Traced {
		s.fault("%d of %d traced packets did not reach %s", r.Traced-r.Delivered, r.Traced, receiver)
	}
	if r.IOAMAtBeta > 0 {
		s.fault("%s received %d bytes of IOAM", receiver, r.IOAMAtBeta)
	}
	if truncated > 0 {
		s.fault("%d packets at %s were too long to be scanned completely", truncated, receiver)
	}
	if r.Exported == 0 || r.Joined != r.Exported || partial > 0 {
		s.fault(
			"of %d packets with a Direct Export, %d were joined into complete paths and %d into incomplete ones",
			r.Exported,
			r.Joined,
			partial,
		)
	}
	if paths := r.Joined + partial; r.ExportedDelivered != paths {
		s.fault("%d of %d packets with a Direct Export did not reach %s", paths-r.ExportedDelivered, paths, receiver)
	}
	if r.Traced > 0 && marked == 0 {
		s.fault("the scan found no IOAM at %s either, so it proves nothing", middle)
	}
}

// summarise prints the results for traces and Direct Exports.
func (s *session) summarise(r result, totals []time.Duration) {
	packets, _, residue, _ := s.arrived.snapshot()
	_, marked, within, _ := s.inside.snapshot()
	s.show.line("%d packets carried IOAM, %d a trace and %d a Direct Export; %s received %d of them.",
		r.Traced+r.Exported, r.Traced, r.Exported, receiver, r.Delivered+r.ExportedDelivered)
	if slices.Sort(totals); len(totals) > 0 {
		s.show.line("From athos to aramis, %d of them: min %s, median %s, max %s.", len(totals),
			spell(totals[0]), spell(totals[len(totals)/2]), spell(totals[len(totals)-1]))
	}
	s.show.line("Inside the domain, %s forwarded %d packets with %d bytes of IOAM.", middle, marked, within)
	s.show.line("Outside, %s received %d packets, traced or not, with %d bytes of IOAM: every packet was scanned.", receiver, packets, residue)
	injected, measured := sum(r.Links)
	s.show.line(
		"On %d links of the SRv6 network, the lab lost %d packets of two flows, and the agents measured a loss of %d.",
		len(r.Links),
		injected,
		measured,
	)
}

// spell writes a time with its unit apart, as in "32 µs".
func spell(d time.Duration) string {
	text := record.Duration(d.Round(time.Microsecond))
	unit := strings.IndexFunc(text, unicode.IsLetter)
	return text[:unit] + " " + text[unit:]
}
