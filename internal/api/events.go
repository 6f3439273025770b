// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// EventQuery says which events are wanted; the zero value is all of the last hour.
type EventQuery struct {
	Since, Until  time.Time
	Last          time.Duration // instead of Since
	Names         []string      // of events
	Begun, Follow bool
	Filter        RecordFilter // by nodes, interfaces, flows and an expression
}

// Events calls fn with each event as a line of JSON, and with Follow with those that come, until the context
// ends.
func (c *Client) Events(ctx context.Context, e EventQuery, fn func(line []byte) error) error {
	q := e.Filter.Query()
	for key, at := range map[string]time.Time{"since": e.Since, "until": e.Until} {
		if !at.IsZero() {
			q.Set(key, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if e.Last > 0 {
		q.Set("last", e.Last.String())
	}
	if len(e.Names) > 0 {
		q.Set("event", strings.Join(e.Names, ","))
	}
	if e.Begun {
		q.Set("begun", "true")
	}
	if e.Follow {
		q.Set("follow", "true")
	}
	body, err := c.open(ctx, http.MethodGet, "/v1/events?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return eachLine(ctx, body, fn)
}
