// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
)

// latest writes the last block of each flow.
func (l *lossList) latest(ctx context.Context, c *api.Client) error {
	lines, err := c.Loss(ctx)
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

// past writes the blocks of the last time. A table is aligned by its rows so far, because there
// may be many.
func (l *lossList) past(ctx context.Context, c *api.Client, last string) error {
	d, err := time.ParseDuration(last)
	if err != nil || d <= 0 {
		return commandline.Usagef("--last %q: want a time, such as 30m", last)
	}
	l.table = newLossTable(true)
	incomplete := func(since string) {
		fmt.Fprintf(l.notes, "waymark: the agent does not have all results before %s: it keeps an hour, at most 64 MB, since it began\n", since)
	}
	return c.LossHistory(ctx, d, l.flow, incomplete, l.line)
}

// againAfter is how soon another agent is looked for.
const againAfter = 100 * time.Millisecond

// follow writes results as they come, of one agent after another, until the context ends.
func (l *lossList) follow(ctx context.Context, c *api.Client) error {
	filter := api.RecordFilter{Kinds: record.KindLoss + "," + record.KindDelay, Flow: l.flow}
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
		case errors.As(err, &refused) && refused.Status == http.StatusBadRequest && filter != (api.RecordFilter{}):
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
	fmt.Fprintf(l.notes, "waymark: %d records are missing here: they came faster than this command could write them; a sink has them\n", r.Count)
	if !l.json {
		return nil
	}
	_, err := fmt.Fprintf(l.out, "%s\n", bytes.TrimSpace(line))
	return err
}
