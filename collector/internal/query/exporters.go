// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Exporter is an observation domain of a node that sends.
type Exporter struct {
	Address   string       `json:"exporter"`
	Domain    uint32       `json:"domain"`
	Name      string       `json:"node,omitempty"`
	First     instant.Time `json:"first"`
	Last      instant.Time `json:"last"`
	Silent    int64        `json:"silent_ns"`
	State     string       `json:"state"`
	Messages  uint64       `json:"messages"`
	Records   uint64       `json:"records"`
	Malformed uint64       `json:"malformed"`
	Missed    uint64       `json:"missed"`
	Awaited   uint64       `json:"awaited"`
	Breaks    uint64       `json:"breaks"`
	Templates int          `json:"templates"`
	Sessions  []Session    `json:"sessions"`
	Clock     int64        `json:"clock_ahead_ns"`
	Lag       int64        `json:"lag_ns,omitempty"`
}

// Session is a transport session of an exporter.
type Session struct {
	Transport string       `json:"transport"`
	Last      instant.Time `json:"last"`
	Templates int          `json:"templates"`
}

// LostRecords are records, messages or packets that were lost on their way into the store.
type LostRecords struct {
	Stage string `json:"stage"`
	Cause string `json:"cause"`
	Text  string `json:"text"`
	Count uint64 `json:"count"`
}

// silentAfter is after what time an exporter that sends nothing is worth a warning. Agents send their names
// and counters more often.
const silentAfter = 5 * time.Minute

// goneAfter is after what time it is worth none any more: it was taken away, or those whom it concerns know.
const goneAfter = 24 * time.Hour

// The states of exporters.
const (
	sends    = "sends"
	isSilent = "silent"
	gone     = "gone"
)

func stateOf(since time.Duration) string {
	switch {
	case since > goneAfter:
		return gone
	case since > silentAfter:
		return isSilent
	}
	return sends
}

// wrongClock is a difference of clocks that no way through a network explains.
const wrongClock = time.Second

// exporters are those of a running collector, and warnings about them.
func (h *Health) exporters(list []collect.Exporter, ignored uint64, now time.Time) {
	var silent, ahead []string
	for i := range list {
		e := &list[i]
		one := Exporter{
			Address: e.Address.String(), Domain: e.Domain, Name: e.Name, First: instant.Of(e.First), Last: instant.Of(e.Last),
			Silent: max(now.Sub(e.Last), 0).Nanoseconds(), State: stateOf(now.Sub(e.Last)),
			Messages: e.Messages, Records: e.Records, Malformed: e.Malformed, Missed: e.Missed, Awaited: e.Awaited, Breaks: e.Breaks,
			Sessions: []Session{}, Clock: e.Ahead.Nanoseconds(), Lag: e.Lag.Nanoseconds(),
		}
		for _, s := range e.Sessions {
			one.Sessions = append(one.Sessions, Session{s.Transport.String(), instant.Of(s.Last), s.Templates})
			one.Templates += s.Templates
		}
		h.Exporters = append(h.Exporters, one)
		name := record.Printable(e.Name)
		if name == "" {
			name = fmt.Sprintf("%v, domain %d", e.Address, e.Domain)
		}
		if one.State == isSilent {
			silent = append(silent, name)
		}
		if e.Ahead > wrongClock && one.State != gone {
			precision := time.Millisecond
			if e.Ahead > 10*time.Second { // the time on the way is in it
				precision = time.Second
			}
			ahead = append(ahead, fmt.Sprintf("%s by %v", name, e.Ahead.Round(precision)))
		}
	}
	h.warnOf(
		silent,
		fmt.Sprintf("sent nothing for more than %d minutes: ", silentAfter/time.Minute),
		fmt.Sprintf(
			"look whether the agent runs, and reaches the collector; of one that sends nothing for %d hours, nothing is said any more",
			goneAfter/time.Hour,
		),
	)
	h.warnOf(ahead, "a clock that is ahead of the collector's: ", "look at the clocks of both; times are kept as they were reported")
	if ignored > 0 {
		h.warn(fmt.Sprintf("%d messages came from more exporters than are listed here", ignored), "")
	}
}

// mostNamed is how many exporters a warning names.
const mostNamed = 5

func (h *Health) warnOf(names []string, what, cure string) {
	if len(names) == 0 {
		return
	}
	text := fmt.Sprintf("%d exporters have %s", len(names), what)
	if len(names) == 1 {
		text = "one exporter has " + what
	}
	for i, name := range names[:min(len(names), mostNamed)] {
		if i > 0 {
			text += ", "
		}
		text += name
	}
	if len(names) > mostNamed {
		text += " and others"
	}
	h.warn(text, cure)
}

// losses are records that were lost, by cause.
func (h *Health) losses(live *Live) {
	add := func(stage string, list []record.Count, only ...string) {
		for _, c := range list {
			if c.Value > 0 && (only == nil || slices.Contains(only, c.Name)) {
				h.Lost = append(h.Lost, LostRecords{stage, c.Name, c.Meaning, c.Value})
			}
		}
	}
	add(
		"receive",
		live.Collector.Counts,
		"socket_dropped",
		"sessions_refused",
		"connections_refused",
		"connections_broken",
		"connections_timed_out",
	)
	add("decode", live.Collector.Malformed)
	add("decode", live.Collector.Impossible)
	add("join", live.Collector.Counts, "postcards_late", "postcards_excess")
	texts := map[string]string{"queue_full": "records that had no room in the queue", "write_failed": "records that could not be written",
		"connection_lost": "records that a broken connection lost", "encode": "records that cannot be encoded"}
	for _, s := range live.Outputs {
		for _, cause := range []string{"queue_full", "write_failed", "connection_lost", "encode"} {
			if n := s.Stats.ByCause()[cause]; n > 0 {
				h.Lost = append(h.Lost, LostRecords{s.Name, cause, texts[cause], n})
			}
		}
	}
}
