// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/waymark-net/waymark/internal/insight"
)

// HistoryTime is the time that a history is asked for; the zero value is the last minute.
type HistoryTime struct {
	Since, Until time.Time
	Last         time.Duration // instead of Since
	Prefixes     []string      // names for them, as NAME=PREFIX
	Live         bool          // it is watched: the node makes more records
	Filter       RecordFilter  // only a part of the traffic
}

func (t HistoryTime) query() url.Values {
	q := t.Filter.Query()
	q["prefix"] = t.Prefixes
	if t.Last > 0 {
		q.Set("last", t.Last.String())
	}
	for key, at := range map[string]time.Time{"since": t.Since, "until": t.Until} {
		if !at.IsZero() {
			q.Set(key, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if t.Live {
		q.Set("live", "true")
	}
	return q
}

// History asks what a time was like.
func (c *Client) History(ctx context.Context, t HistoryTime) (*insight.Report, error) {
	r := &insight.Report{}
	err := c.do(ctx, http.MethodGet, "/v1/history?"+t.query().Encode(), nil, r)
	return r, err
}

// HistoryIntervals calls fn with the intervals of a time, and with follow with all that end from now on, until
// the context ends.
func (c *Client) HistoryIntervals(ctx context.Context, t HistoryTime, follow bool, fn func(*insight.Interval) error) error {
	q := t.query()
	if follow {
		q.Set("follow", "true")
	}
	body, err := c.open(ctx, http.MethodGet, "/v1/history/intervals?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	for d := json.NewDecoder(body); ; {
		v := &insight.Interval{}
		switch err := d.Decode(v); {
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("the agent ended: %w", err)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
}
