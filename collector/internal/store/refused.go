// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// refusals are records that the database refused for what they have, and that are left out.
type refusals struct {
	count atomic.Uint64
	next  time.Time // not before, the next message about them
}

// refusalInterval is the time between two messages about records that are left out.
const refusalInterval = time.Minute

// refusedError is the error of a transaction with a record that the database refuses. To try it again is of no use.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// ofDatabase are parts of the texts of errors that come from the state of the database, the disk or the memory. Errors
// of the appender have no types.
var ofDatabase = []string{
	"database has been invalidated", "fatal", "internal error", "io error", "no space left", "could not write", "could not read",
	"out of memory", "could not allocate", "failed to allocate", "interrupt", "transaction", "connection",
}

// asRefused marks an error of appending that a record causes. Nothing is on the disk then: what fails there fails when
// the transaction ends.
func asRefused(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := strings.ToLower(err.Error())
	if slices.ContainsFunc(ofDatabase, func(part string) bool { return strings.Contains(text, part) }) {
		return err
	}
	return &refusedError{err}
}

// writeParts writes records in one transaction, or without those that the database refuses, in several: it halves them
// until each refused one is alone. done is how many were written or left out, from the first on.
func (f *open) writeParts(ctx context.Context, batch []record.Record, leaveOut func(record.Record, error)) (done int, err error) {
	err = f.write(ctx, batch)
	var refused *refusedError
	switch {
	case err == nil:
		return len(batch), nil
	case !errors.As(err, &refused):
		return 0, err
	case len(batch) == 1:
		leaveOut(batch[0], refused)
		return 1, nil
	}
	middle := len(batch) / 2
	if done, err = f.writeParts(ctx, batch[:middle], leaveOut); err != nil {
		return done, err
	}
	rest, err := f.writeParts(ctx, batch[middle:], leaveOut)
	return done + rest, err
}

// leaveOut counts a record that is not kept, and says so once a minute.
func (s *Store) leaveOut(r record.Record, why error) {
	n, now := s.refusals.count.Add(1), time.Now()
	if now.Before(s.refusals.next) {
		return
	}
	s.refusals.next = now.Add(refusalInterval)
	text := fmt.Sprintf("the database refuses a record of kind %s, which is not kept: %s; %d were left out since the start",
		r.Kind(), firstLine(why), n)
	s.options.Note(slog.LevelError, text)
}

// Refused is how many records the database refused for what they have, since the store was opened.
func (s *Store) Refused() uint64 { return s.refusals.count.Load() }
