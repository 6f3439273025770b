// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/recordfilter"
)

// Bounds of who follows the history.
const (
	maxFollowers = 16
	mostReports  = 2 // are made at one time
	unreadLines  = 8 // a follower with more unread intervals is ended
)

func (h *History) Routes() service.Routes {
	return service.Routes{
		// What a time of the last hour was like, as `waymark top` shows it: the paths between each two prefixes with
		// their shares; of each hop the time for which it held packets, and that to the next hop, both as quantiles;
		// what was lost after it, where that is known; and whether it is slow, loses, or may lose (`uncertain`). `loss` of
		// a path is `null` unless that of each of its hops is known. `queues` is what packets waited in
		// the queues of this node in the last minute of the time, if that is now and they are measured, and `queued` the
		// same of a hop that is this node. [What the values mean](../how-to/see-where-time-goes.md). `last=1m` asks
		// for the last minute, which is the default; `since` and
		// `until` for another time, in RFC 3339. `prefix=NAME=PREFIX`, up to 64 times, names prefixes that have no name in
		// the configuration, and adds up what is in each. `live=true` says that a user looks at it: for the next five
		// seconds, the node makes up to 100,000 records a second for it, and measures its queues.
		// Parameters of `/v1/records` select a part of the traffic: `node`, `interface` and `flow` select paths, of any
		// time; the others select packets, which are counted since the first such request, with `live=true` and
		// without `since` and `until`: `filtered` is since when. At most 2 such filters are looked through at once, 1 if a
		// member of `node.read-group` asks, each until 90 s after the last request. Records that
		// come faster than the expression of `where` is computed are not in the report: `filtered` counts them as
		// `unexamined`.
		"GET /v1/history": h.getReport,
		// The rollups of the same times, one JSON object per line, the oldest first: packets, histograms and losses of
		// each path in about ten seconds. A histogram has pairs of an index and a count: bucket `i` ends at 2^(i/16) ns.
		// With `follow=true`, further ones follow when they end, until the client closes the connection; at most 16
		// clients may follow, 12 if a member of `node.read-group` asks, and one that leaves 8 unread is ended.
		"GET /v1/history/intervals": h.getIntervals,
	}
}

// historyTimes is which time is wanted.
type historyTimes struct {
	since, until time.Time
	names        []insight.NamedPrefix
	live, follow bool
	past         bool // since or until is given
	filter       *recordfilter.Filter
}

// timesOf reads what a request asks for.
func (h *History) timesOf(r *http.Request, now time.Time) (q historyTimes, err error) {
	last, rest := time.Duration(0), url.Values{}
	for key, values := range r.URL.Query() {
		if key != "prefix" && len(values) != 1 {
			return q, service.BadRequest(fmt.Errorf("%s is given %d times", key, len(values)))
		}
		switch value := values[0]; key {
		case "last":
			if last, err = time.ParseDuration(value); err == nil && last <= 0 {
				err = errors.New("not positive")
			}
		case "since":
			q.past = true
			q.since, err = time.Parse(time.RFC3339Nano, value)
		case "until":
			q.past = true
			q.until, err = time.Parse(time.RFC3339Nano, value)
		case "prefix":
			q.names, err = prefixesOf(values)
		case "live":
			q.live, err = parseTruth(value)
		case "follow":
			q.follow, err = parseTruth(value)
		default:
			if !slices.ContainsFunc(recordfilter.Settings, func(s recordfilter.Setting) bool { return s.Key == key }) {
				return q, service.BadRequest(problem.New(
					fmt.Sprintf("%s: unknown", key),
					"use last, since, until, prefix, live, follow or a filter of records",
				))
			}
			rest[key] = values
		}
		if err != nil {
			return q, service.BadRequest(
				problem.Wrap(
					fmt.Errorf("%s=%q: %w", key, values[0], err),
					"want a time such as 10m (last), or as 2026-11-21T05:21:00Z (since, until)",
				),
			)
		}
	}
	if q.filter, err = filterOf(rest); err != nil {
		return q, service.BadRequest(err)
	}
	if q.until.IsZero() {
		q.until = now
	}
	switch {
	case last > 0 && !q.since.IsZero():
		return q, service.BadRequest(errors.New("choose last or since"))
	case last > 0:
		q.since = q.until.Add(-last)
	case q.since.IsZero():
		q.since = q.until.Add(-time.Minute)
	}
	if !q.since.Before(q.until) {
		return q, service.BadRequest(fmt.Errorf("since %v is not before until %v", instant.Of(q.since), instant.Of(q.until)))
	}
	return q, nil
}

func parseTruth(value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, errors.New("want true or false")
	}
	return value == "true", nil
}

// prefixesOf reads names of prefixes: NAME=PREFIX, or a prefix alone.
func prefixesOf(values []string) (list []insight.NamedPrefix, err error) {
	const most = 64
	if len(values) > most {
		return nil, fmt.Errorf("%d prefixes; at most %d", len(values), most)
	}
	for _, value := range values {
		name, text, named := strings.Cut(value, "=")
		if !named {
			name, text = "", value
		}
		p, err := netip.ParsePrefix(text)
		if err != nil || named && !config.ValidPrefixName(name) {
			return nil, errors.New("want NAME=PREFIX, such as cust7=2001:db8:7::/48")
		}
		list = append(list, insight.NamedPrefix{Name: name, Prefix: p.Masked()})
	}
	return list, nil
}

func (h *History) getReport(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	q, err := h.timesOf(r, now)
	if err != nil {
		return err
	}
	if q.follow {
		return service.BadRequest(problem.New("a report ends", "follow /v1/history/intervals"))
	}
	if q.live {
		h.noteLook(now)
	}
	select { // a report of an hour takes memory
	case h.reports <- struct{}{}:
	case <-r.Context().Done():
		return nil
	}
	report, err := func() (*insight.Report, error) {
		defer func() { <-h.reports }() // before the answer, which waits for the client
		return h.reportOf(r, &q, now)
	}()
	if err == nil {
		service.Answer(w, http.StatusOK, report)
	}
	return err
}

// reportOf makes the report that a request asks for.
func (h *History) reportOf(r *http.Request, q *historyTimes, now time.Time) (report *insight.Report, err error) {
	if q.filter != nil {
		if report, err = h.filtered(r, q, now); err != nil {
			return nil, err
		}
	} else {
		report = h.engine.Load().Report(q.since, q.until, now, q.names...)
		h.name(report)
	}
	var queues *insight.Queues
	if h.waits != nil && !q.until.Before(now) { // queues have no history
		queues = h.waits.Look(q.live, q.since)
	}
	if s := h.d.State.Load(); s != nil {
		addQueues(report, queues, &s.Resolved.Node)
	}
	return report, nil
}

// noteLook notes that the history is asked for.
func (h *History) noteLook(now time.Time) {
	was := h.isLive(now)
	h.lastAsked.Store(now.UnixNano())
	if !was {
		h.resting.Store(false) // its seconds are not divided
		h.paused.Store(false)
		notify(h.wake)
	}
}

// publish gives an interval to all who follow.
func (h *History) publish(v *insight.Interval) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers) == 0 {
		return
	}
	line := v.Line()
	for f := range h.followers {
		select {
		case f <- line:
		default:
			delete(h.followers, f)
			close(f)
		}
	}
}

func (h *History) follow(r *http.Request) (lines chan []byte, end func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if places, maximum := service.Places(r, maxFollowers); len(h.followers) >= places {
		return nil, nil, service.Refused(problem.New(fmt.Sprintf("%d clients follow the history, %s", places, maximum), "end one of them"))
	}
	lines = make(chan []byte, unreadLines)
	h.followers[lines] = true
	return lines, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.followers, lines)
	}, nil
}

func (h *History) getIntervals(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	q, err := h.timesOf(r, now)
	if err != nil {
		return err
	}
	if q.filter != nil {
		return service.BadRequest(problem.New("intervals have sums, and no packets that a filter could select", "ask for /v1/history"))
	}
	var lines chan []byte
	if q.follow {
		var end func()
		if lines, end, err = h.follow(r); err != nil {
			return err
		}
		defer end()
	}
	list, _ := h.engine.Load().Read(q.since, q.until, now)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	write := func(line []byte) bool {
		_, err := w.Write(line)
		return err == nil
	}
	for _, v := range list {
		if v.Open && q.follow {
			continue // it comes when it ends
		}
		if !write(v.Line()) {
			return nil // the client has gone
		}
	}
	if q.follow {
		follow(w, r, h.records.closing, lines, write)
	}
	return nil
}
