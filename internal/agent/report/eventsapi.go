// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
)

// Routes are the requests that the service answers.
func (x *Events) Routes() service.Routes {
	return service.Routes{
		// The [events](events.md) of a time of the last hour, one JSON object per line, the oldest first, as records of
		// the kind `event`; before them come those that began earlier and have not ended. `last=10m` asks for the
		// last ten minutes; without it, `since` and `until` (RFC 3339), it is the hour. `event=NAME,NAME` selects
		// events by name, `begun=true` those that began something that has not ended. `node`, `interface`, `flow` and
		// `where` are [filters](../how-to/filter-records.md) as those of `GET /v1/records`. With `follow=true`, further
		// ones follow as they are found, until the client closes the connection; at most 16 clients may follow, 12 if
		// a member of `node.read-group` asks, and one that leaves 64 unread is ended. While one follows, the node
		// makes up to 100,000 records a second to
		// find events in.
		"GET /v1/events": x.getEvents,
	}
}

// eventQuery is which events are wanted.
type eventQuery struct {
	since, until  time.Time
	follow, begun bool
	names         []string
	program       *recordfilter.Program
}

func eventQueryOf(q url.Values, now time.Time) (out eventQuery, err error) {
	last := eventsKept
	rest := url.Values{}
	for key, values := range q {
		if len(values) != 1 {
			return out, fmt.Errorf("%s is given %d times", key, len(values))
		}
		switch value := values[0]; key {
		case "last":
			if last, err = time.ParseDuration(value); err == nil && last <= 0 {
				err = errors.New("not positive")
			}
		case "since":
			out.since, err = time.Parse(time.RFC3339Nano, value)
		case "until":
			out.until, err = time.Parse(time.RFC3339Nano, value)
		case "follow":
			out.follow, err = parseTruth(value)
		case "begun":
			out.begun, err = parseTruth(value)
		case "event":
			out.names = strings.Split(value, ",")
			if i := slices.IndexFunc(out.names, func(name string) bool { return record.EventKindOf(name) == nil }); i >= 0 {
				return out, fmt.Errorf("event: there is none called %q; the names are in docs/reference/events.md", out.names[i])
			}
		case "node", "interface", "flow", "where":
			rest[key] = values
		default:
			return out, problem.New(
				fmt.Sprintf("%s: unknown", key),
				"use last, since, until, follow, begun, event, node, interface, flow or where",
			)
		}
		if err != nil {
			return out, fmt.Errorf("%s=%q: %w", key, values[0], err)
		}
	}
	switch {
	case q.Has("last") && q.Has("since"):
		return out, errors.New("choose last or since")
	case out.follow && q.Has("until"):
		return out, errors.New("choose follow or until")
	}
	if out.until.IsZero() {
		out.until = now.Add(time.Second) // those of this moment, too
	}
	if out.since.IsZero() {
		out.since = out.until.Add(-last)
	}
	if !out.since.Before(out.until) {
		return out, errors.New("since is not before until")
	}
	f, err := recordfilter.FromQuery(rest)
	if err == nil {
		out.program, err = f.Compile()
	}
	return out, err
}

// wants reports whether an event is selected.
func (q *eventQuery) wants(e *record.Event, isOn func(*record.Event) bool) bool {
	if len(q.names) > 0 && !slices.Contains(q.names, e.Name) || q.begun && !isOn(e) {
		return false
	}
	is, err := q.program.Match(e)
	return is && err == nil
}

func (x *Events) getEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := eventQueryOf(r.URL.Query(), time.Now())
	if err != nil {
		return service.BadRequest(err)
	}
	var list []*record.Event
	var next <-chan *record.Event
	if q.follow {
		places, maximum := service.Places(r, eventlog.MostFollowers)
		past, further, end, ok := x.log.Follow(q.since, places)
		if !ok {
			return service.Refused(problem.New(fmt.Sprintf("%d clients follow the events, %s", places, maximum), "end one of them"))
		}
		defer end()
		list, next = past, further
	} else {
		list = x.log.Read(q.since, q.until)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	write := func(e *record.Event) bool {
		if !q.wants(e, x.log.IsOn) {
			return true
		}
		_, err := w.Write(record.AppendLine(nil, e))
		return err == nil
	}
	for _, e := range list {
		if !write(e) {
			return nil // the client has gone
		}
	}
	if q.follow {
		follow(w, r, x.records.closing, next, write)
	}
	return nil
}
