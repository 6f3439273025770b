// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// reportings are the reports about postcards in messages, and how many data records came
// before each.
func reportings(t *testing.T, octets []byte) (list []record.Reporting, before []int) {
	t.Helper()
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(testEnterprise))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ipfix.NewDecoder(ipfix.DecoderConfig{Registry: registry}).Open(ipfix.SessionKey{Transport: ipfix.TCP}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data := 0
	for len(octets) > 0 {
		n := int(octets[2])<<8 | int(octets[3])
		m, err := s.Decode(octets[:n], time.Now())
		if err != nil {
			t.Fatal(err)
		}
		octets = octets[n:]
		for _, set := range m.Sets {
			reading := record.NewReading(set.Template, testEnterprise)
			for r := range set.Records() {
				if set.Template.Scope() == 0 {
					data++
				} else if reading.Reporting {
					p, ok := reading.ReportingOf(r)
					if !ok {
						t.Errorf("incomplete: %+v", p)
					}
					list, before = append(list, p), append(before, data)
				}
			}
		}
	}
	return list, before
}

// sessionOf is a session of a sink that records what it writes.
func sessionOf(t *testing.T, c *Sink) (*session, *recorded) {
	t.Helper()
	l := &recorded{}
	s, err := newSession(c, l)
	if err != nil {
		t.Fatal(err)
	}
	s.encoder.Start(s.out)
	return s, l
}

// drainInto writes what is in the queue.
func drainInto(t *testing.T, s *session) {
	t.Helper()
	for b, _ := s.c.queue.ready(0); b != nil; b, _ = s.c.queue.ready(0) {
		if err := s.add(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
}

// A report comes behind the postcards that were offered before it. It is no record of the
// sink. After records were dropped, and in a new session, it covers less time.
func TestReportsFollowPostcards(t *testing.T) {
	x := newEncoder(t)
	c, err := New(Config{Transport: TCP, Address: "[::1]:4739", Domain: 2, Refresh: time.Minute}, x, testEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	began := c.began
	report := sink.Report{Since: began.Add(time.Second), Until: began.Add(2 * time.Second), Served: began, Suppressed: 3, Lost: 4,
		Namespaces: []sink.Reported{{Namespace: 123, Sampling: 1}, {Namespace: 124, Sampling: 10}}}
	offer(x, c, postcard(t), 5)
	c.Report(report)
	offer(x, c, postcard(t), 2)
	c.Report(report)
	if stats := c.Stats(); stats.Offered != 7 || stats.Waiting() != 7 {
		t.Errorf("%+v", stats)
	}
	s, l := sessionOf(t, c)
	drainInto(t, s)
	list, before := reportings(t, l.octets)
	if len(list) != 4 || before[0] != 5 || before[1] != 5 || before[2] != 7 || before[3] != 7 {
		t.Fatalf("%d reports, behind %v postcards", len(list), before)
	}
	for i, p := range list {
		if ns := report.Namespaces[i%2]; p.Namespace != ns.Namespace || p.Sampling != ns.Sampling || p.Domain != 2 || p.Suppressed != 3 ||
			p.Lost != 4 || p.NotSent != 0 ||
			!near(p.Since.Time, report.Since) || !near(p.Until.Time, report.Until) || !near(p.Served.Time, report.Served) ||
			p.Counted.Before(began) {
			t.Errorf("report %d: %+v", i, p)
		}
	}
	// Another session: what was sent before it began is not in it.
	c.began = report.Since.Add(time.Minute)
	c.Report(report)
	s, l = sessionOf(t, c)
	drainInto(t, s)
	if list, _ := reportings(t, l.octets); len(list) != 2 || !near(list[0].Since.Time, c.began) {
		t.Errorf("in another session: %+v", list)
	}
	// A full queue drops its oldest records, and says nothing of their time.
	c.began = began
	time.Sleep(20 * time.Millisecond)
	full := time.Now()
	offer(x, c, postcard(t), maxBlocks*blockLen/100*3)
	if c.Stats().Dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	report.Since = began
	c.Report(report)
	s, l = sessionOf(t, c)
	drainInto(t, s)
	if list, _ := reportings(t, l.octets); len(list) != 2 || list[0].Since.Before(full) {
		t.Errorf("after records were dropped at %v: %+v", full, list)
	}
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() < time.Microsecond }
