// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"encoding/binary"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// markLayout is the layout of a mark in a queue: all records that were offered before the mark are
// before it in the queue. No record has this layout, because layouts are numbered from 0 and there are
// no more than shapes.
const markLayout = ^uint16(0)

// reportMark is what a queue keeps of a report about one namespace.
type reportMark struct {
	Namespace                     ioam.NamespaceID
	Sampling                      uint32
	Since, Until, Counted, Served int64 // nanoseconds since 1970
	Suppressed, Lost, Rejected    uint64
}

// Report puts marks after the postcards that were offered.
func (c *Sink) Report(r sink.Report) {
	// What is counted after the counters were read is in the next report, which
	// covers the time from Until on.
	rejected := c.rejected.Load()
	for _, ns := range r.Namespaces {
		octets, err := binary.Append(nil, binary.NativeEndian, reportMark{
			Namespace: ns.Namespace, Sampling: ns.Sampling,
			Since: r.Since.UnixNano(), Until: r.Until.UnixNano(), Counted: c.now().UnixNano(), Served: r.Served.UnixNano(),
			Suppressed: r.Suppressed, Lost: r.Lost, Rejected: rejected,
		})
		if err == nil { // a mark has a fixed size
			c.queue.mark(octets)
		}
	}
}

// tellReported sends a mark: what is in front of it was sent in this session, or was
// dropped, or went to an earlier session.
func (s *session) tellReported(octets []byte) error {
	var m reportMark
	if _, err := binary.Decode(octets, binary.NativeEndian, &m); err != nil {
		return err
	}
	since := time.Unix(0, m.Since)
	for _, t := range []time.Time{s.c.began, s.c.queue.wholeSince()} {
		if t.After(since) {
			since = t
		}
	}
	at := func(ns int64) instant.Time { return instant.Of(time.Unix(0, ns)) }
	return s.option(s.c.options.Reporting.Template, s.c.options.Reporting.Append(nil, &record.Reporting{
		Domain: s.c.config.Domain, Namespace: m.Namespace, Since: instant.Of(since), Until: at(m.Until), Counted: at(m.Counted),
		Served:   at(m.Served),
		Sampling: m.Sampling, Suppressed: m.Suppressed, Lost: m.Lost, NotSent: m.Rejected + s.c.unencodable.Load() + s.skipped(),
	}))
}

// skipped is how many records had no room in any message that is not yet confirmed.
func (s *session) skipped() (n uint64) {
	for _, m := range s.pending {
		n += m.skipped
	}
	return n + s.message.skipped
}
