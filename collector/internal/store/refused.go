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

	"github.com/duckdb/duckdb-go/v2"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
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

// typesOfDatabase are the types of errors that come from the state of the database, the disk or the memory.
var typesOfDatabase = []duckdb.ErrorType{
	duckdb.ErrorTypeIO, duckdb.ErrorTypeOutOfMemory, duckdb.ErrorTypeFatal, duckdb.ErrorTypeInternal, duckdb.ErrorTypeInterrupt,
	duckdb.ErrorTypeTransaction, duckdb.ErrorTypeConnection, duckdb.ErrorTypeCatalog, duckdb.ErrorTypeSerialization,
	duckdb.ErrorTypePermission, duckdb.ErrorTypeSettings, duckdb.ErrorTypeInvalidConfiguration,
}

// ofDatabase are parts of the texts of such errors that have no type, as those of an appender that writes its rows.
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
	var isOfDatabase bool
	if of := (*duckdb.Error)(nil); errors.As(err, &of) && of.Type != duckdb.ErrorTypeInvalid {
		isOfDatabase = slices.Contains(typesOfDatabase, of.Type)
	} else {
		text := strings.ToLower(unquoted(err.Error()))
		isOfDatabase = slices.ContainsFunc(ofDatabase, func(part string) bool { return strings.Contains(text, part) })
	}
	if isOfDatabase {
		return err
	}
	return &refusedError{err}
}

// unquoted is the text of an error without what is between its first quote and its last one: values of the record, which
// may look like anything.
func unquoted(text string) string {
	const quotes = `"'`
	if first, last := strings.IndexAny(text, quotes), strings.LastIndexAny(text, quotes); first < last {
		return text[:first] + text[last+1:]
	}
	return text
}

// mostRefused is how many records of a batch are refused before a plain packet is tried: if the database does not accept
// that either, it is not what the records have.
const mostRefused = 100

// plain is a record that nothing is wrong with.
var plain = &record.Path{Time: instant.Of(time.Unix(0, 0))}

// parts writes a batch in several transactions.
type parts struct {
	file     *open
	batch    []record.Record
	refused  []refusedRecord
	accepted bool // the database accepts one of the batch, or a plain packet
}

type refusedRecord struct {
	record record.Record
	why    *refusedError
}

// writeParts writes records in one transaction, or without those that the database refuses, in several. done is how many
// were written or left out, from the first on. Where all of many are refused, and a plain packet is, too, that is an
// error, and none is left out.
func (f *open) writeParts(ctx context.Context, batch []record.Record, leaveOut func(record.Record, error)) (done int, err error) {
	p := parts{file: f, batch: batch}
	done, err = p.write(ctx, batch)
	if !p.accepted && len(p.refused) > mostRefused {
		return 0, err
	}
	for _, r := range p.refused {
		leaveOut(r.record, r.why)
	}
	return done, err
}

// write halves the records until each one that is refused is alone.
func (p *parts) write(ctx context.Context, batch []record.Record) (done int, err error) {
	err = p.file.write(ctx, batch)
	var refused *refusedError
	switch {
	case err == nil:
		p.accepted = true
		return len(batch), nil
	case !errors.As(err, &refused):
		return 0, err
	case len(batch) == 1:
		p.refused = append(p.refused, refusedRecord{batch[0], refused})
		return 1, p.refusesAll(ctx)
	}
	middle := len(batch) / 2
	if done, err = p.write(ctx, batch[:middle]); err != nil {
		return done, err
	}
	rest, err := p.write(ctx, batch[middle:])
	return done + rest, err
}

// refusesAll is an error if the database has refused many records, accepted none of the batch, and refuses a plain packet,
// too. Else an exporter that sends nothing but such records would stop the store.
func (p *parts) refusesAll(ctx context.Context) error {
	if p.accepted || len(p.refused) <= mostRefused {
		return nil
	}
	if p.accepted = p.file.accepts(ctx, plain); p.accepted {
		return nil
	}
	return problem.Wrap(fmt.Errorf("the database refuses all of %d records, which wait: %w", len(p.batch), p.refused[0].why.error),
		"restart the collector, and look at its files by waymark-collector store check")
}

// accepts reports whether a record could be written. It is not.
func (f *open) accepts(ctx context.Context, r record.Record) bool {
	w := transaction{file: f, ctx: ctx, batch: f.batch}
	if _, err := f.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return false
	}
	defer f.rollBack(&w)
	return w.all([]record.Record{r}) == nil
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
	s.options.Log(slog.LevelError, text)
}

// Refused is how many records the database refused for what they have, since the store was opened.
func (s *Store) Refused() uint64 { return s.refusals.count.Load() }
