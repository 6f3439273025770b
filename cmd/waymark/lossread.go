// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// latest writes the last block of each flow.
func (l *lossList) latest(ctx context.Context, c *api.Client) error {
	lines, err := c.Loss(ctx, l.filter)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if err := l.add(line); err != nil {
			return err
		}
	}
	return nil
}

// lossTime is a time of the last hour whose blocks are shown.
type lossTime struct {
	last         time.Duration // up to now, in which the blocks are; 0: the last block is shown
	since, until time.Time     // of the begin of a block; zero: any
}

func (p lossTime) isSet() bool { return p.last > 0 }

// newLossTime reads the flags --last, --since and --until.
func newLossTime(last, since, until string, now time.Time) (p lossTime, err error) {
	if last != "" && since != "" {
		return p, commandline.Usagef("choose --last or --since")
	}
	if last != "" {
		if p.last, err = time.ParseDuration(last); err != nil || p.last <= 0 || p.last > mostLossHistory {
			return p, commandline.Usagef("--last %q: want a time up to 1h, for which results are kept, such as 30m", last)
		}
	}
	if p.since, err = parseMoment("since", since, now); err != nil {
		return p, err
	}
	if p.until, err = parseMoment("until", until, now); err != nil {
		return p, err
	}
	switch {
	case since == "" && until == "":
		return p, nil
	case !p.until.IsZero() && !p.since.Before(p.until):
		return p, commandline.Usagef("--since %s is not before --until %s", since, until)
	case !p.since.Before(now):
		return p, commandline.Usagef("--since %s is in the future", since)
	}
	if p.last == 0 { // also a block that began within it and ended later
		p.last = mostLossHistory
		if since != "" {
			p.last = min(now.Sub(p.since).Round(time.Second)+time.Second, mostLossHistory)
		}
	}
	return p, nil
}

// mostLossHistory is for how long agents keep results.
const mostLossHistory = time.Hour

// has reports whether a record is of a block that began in the time.
func (p lossTime) has(line []byte) bool {
	if p.since.IsZero() && p.until.IsZero() {
		return true
	}
	r, err := record.Parse(line)
	if err != nil {
		return true // who reads it says what is wrong
	}
	var start time.Time
	switch r := r.(type) {
	case *record.Loss:
		start = r.Start.Time
	case *record.Delay:
		start = r.Start.Time
	default:
		return true
	}
	return !start.Before(p.since) && (p.until.IsZero() || start.Before(p.until))
}

// printPast writes the blocks of a time. A table is aligned by its rows so far, because there may be many.
func (l *lossList) printPast(ctx context.Context, c *api.Client, p lossTime) error {
	l.table = newLossTable(true)
	l.foldsIdle = !l.json && l.csv == nil && l.filter == (api.RecordFilter{})
	incomplete := func(since string) {
		fmt.Fprintf(l.notes, "waymark: the agent does not have all results before %s: it keeps an hour, at most 64 MB, since it began\n", since)
	}
	if oldest := time.Now().Add(-mostLossHistory); !p.since.IsZero() && p.since.Before(oldest) {
		incomplete(instant.Format(oldest))
	}
	return c.LossHistory(ctx, p.last, l.selected(), incomplete, func(line []byte) error {
		if !p.has(line) {
			return nil
		}
		return l.line(line)
	})
}

// againAfter is how soon another agent is looked for.
const againAfter = 100 * time.Millisecond

// follow writes results as they come, of one agent after another, until the context ends.
func (l *lossList) follow(ctx context.Context, c *api.Client) error {
	filter := l.selected()
	filter.Kinds = cmp.Or(filter.Kinds, record.KindLoss+","+record.KindDelay)
	connected, waiting := false, false
	ready := func() {
		if waiting {
			fmt.Fprintln(l.notes, "waymark: an agent runs again; what it does not know of the time between is shown as no-data")
		}
		connected, waiting = true, false
	}
	line := func(line []byte) error {
		if err := l.line(line); err != nil {
			return failed{err}
		}
		return nil
	}
	for {
		err := c.Observe(ctx, filter, ready, line)
		var own failed
		var refused *api.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &own):
			return own.error
		case errors.As(err, &refused) && refused.Status == http.StatusBadRequest && l.filter == (api.RecordFilter{}) &&
			filter != (api.RecordFilter{}):
			filter = api.RecordFilter{} // an older agent gives all records
			continue
		case !connected, errors.As(err, &refused), errors.Is(err, fs.ErrPermission):
			return err
		case !waiting:
			fmt.Fprintln(l.notes, "waymark: the agent has ended; waiting for the next one")
			waiting = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(againAfter):
		}
	}
}

// failed is an error of this program, not of the agent.
type failed struct{ error }

// lost says that results are missing, where the results are, too.
func (l *lossList) lost(line []byte, r *record.Lost) error {
	fmt.Fprintf(
		l.notes,
		"waymark: %d records are missing here: they came faster than this command could write them; a sink has them\n",
		r.Count,
	)
	if !l.json {
		return nil
	}
	_, err := fmt.Fprintf(l.out, "%s\n", bytes.TrimSpace(line))
	return err
}
