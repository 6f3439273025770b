// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

const (
	// commitInterval is the time from the begin of one transaction to that of the next: what waits for it is lost when
	// the process is killed.
	commitInterval = 500 * time.Millisecond
	// mostOfTransaction is how many records one has.
	mostOfTransaction = 1 << 16
	// mostKnown is how many keys, paths, segments and names a file may have. Beyond it, another one is
	// begun, so that senders who make up addresses do not fill the memory.
	mostKnown = 1 << 20
)

// Writer is a sink.Writer that writes into a Store.
type Writer struct{ store *Store }

// NewWriter is the writer of a store. It does not close the store.
func NewWriter(s *Store) *Writer { return &Writer{s} }

// Write writes records in one transaction.
func (w *Writer) Write(batch []record.Record) (tried, written int, err error) {
	tried = min(len(batch), mostOfTransaction)
	written, err = w.store.writeRecords(context.Background(), batch[:tried])
	return tried, written, err
}

// End does nothing: writes wait for nothing.
func (w *Writer) End() {}

// Close does nothing: the store outlives the sink.
func (w *Writer) Close() error { return nil }

// Sink is a sink that writes into the store by a writer of it, in each commitInterval. What cannot be written now is tried again.
func Sink(to sink.Writer, room *sink.QueueSpace) *sink.Queued {
	return sink.NewQueued(to, sink.Settings{Name: "store", QueueSpace: room, Retry: true, Interval: commitInterval})
}

// Write writes records in one transaction: all of them, or none. Those that the database refuses are left out.
func (s *Store) Write(ctx context.Context, batch []record.Record) error {
	_, err := s.writeRecords(ctx, batch)
	return err
}

// writeRecords is Write, and returns how many records need not be written again, from the first on.
func (s *Store) writeRecords(ctx context.Context, batch []record.Record) (done int, err error) {
	done, err = s.write(ctx, batch)
	if err != nil && invalidated(err) {
		err = errors.Join(err, s.reopen(ctx))
	}
	return done, err
}

func (s *Store) write(ctx context.Context, batch []record.Record) (done int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.publish()
	if err := s.writable(ctx); err != nil {
		s.refuse(err)
		return 0, err
	}
	s.helpers.pause()
	defer s.helpers.resume()
	if done, err = s.file.writeParts(ctx, batch, s.leaveOut); err != nil {
		err = fmt.Errorf("write into %s: %w", s.path(s.file.entry.Name), err)
		s.refuse(err)
		return done, err
	}
	s.written()
	return done, s.checkpoint(ctx)
}

// writable makes sure that there is room on the disk and a file to write into.
func (s *Store) writable(ctx context.Context) error {
	if s.db == nil {
		return errors.New("the store is closed")
	}
	if err := s.room(); err != nil {
		return err
	}
	if s.file != nil && s.file.known.size() > mostKnown {
		s.retire(s.file)
		s.file = nil
	}
	return s.ensureFile(ctx)
}

// invalidated reports whether the database refuses everything after an error, until it is opened again.
func invalidated(err error) bool {
	var of *duckdb.Error
	return errors.As(err, &of) && of.Type == duckdb.ErrorTypeFatal || strings.Contains(err.Error(), "has been invalidated")
}

// reopen opens the database again, with the file that is written. Queries wait meanwhile.
func (s *Store) reopen(ctx context.Context) error {
	s.instance.Lock()
	defer s.instance.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.publish()
	if s.db == nil || s.file == nil {
		return errors.New("the store is closed")
	}
	e := s.file.entry
	s.file.closeAppenders()
	_ = s.file.conn.Close()
	s.file = nil
	_ = s.closeDatabase() // it has failed
	s.attached.files = map[string]*reading{}
	err := s.openDatabase()
	if err != nil {
		return err
	}
	if s.file, err = s.openFile(ctx, e); err != nil {
		s.unreadable(e, err)
	}
	return err
}

// tick does what is due with time: rollups, the next file, and what leaves.
func (s *Store) tick(ctx context.Context) {
	each := time.NewTicker(time.Second)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			s.Tend(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// SinceTended is how long ago Tend last ended, or ended one of the rollups, which take long on a machine without time to
// spare. It waits for nothing: a disk that does not answer holds up a write or Tend itself, and Tend waits for each write.
func (s *Store) SinceTended() time.Duration { return time.Since(*s.tended.Load()) }

func (s *Store) noteProgress() {
	now := time.Now() // with its monotonic time, whatever the clock is set to
	s.tended.Store(&now)
}

// Tend does what is due now. It is called every second.
func (s *Store) Tend(ctx context.Context) {
	defer s.noteProgress()
	s.instance.RLock() // the database stays open
	defer s.instance.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.publish()
	now := s.now()
	s.lookForMissed(now)
	if s.file == nil {
		return
	}
	due := s.file.due(now)
	if due {
		s.rollUp(ctx)
	}
	if s.file != nil && s.ended(now) {
		s.retire(s.file)
		s.file = nil
		if err := s.ensureFile(ctx); err != nil {
			s.refuse(err)
		}
		due = true
	}
	if !due {
		return
	}
	if s.file != nil {
		s.updateSize(s.file.entry)
		s.settleFiles(ctx)
	}
	s.retain()
	if err := s.catalog.write(s.options.Directory); err != nil {
		s.options.Log(slog.LevelError, "the catalog is not written: "+err.Error())
	}
}

// rollUp makes the rollups of the file that is written. What comes is written meanwhile: the lock of writing is let go,
// and there may be another file, or none, after it.
func (s *Store) rollUp(ctx context.Context) {
	f, upto := s.file, s.file.batch
	f.rolledPackets = f.entry.Packets // if they fail, they are tried again with the next ones
	f.using.RLock()
	defer f.using.RUnlock()
	s.writing.Unlock()
	s.noteProgress() // what comes now has a time of its own
	err := s.helped(niceRollup, func() error {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return f.rollUpMinutes(ctx, conn, upto)
	})
	s.writing.Lock()
	if err != nil && ctx.Err() == nil {
		s.options.Log(slog.LevelError, "rollups are not made: "+firstLine(err))
	}
}

// ended reports whether the time of the file is over: its hour, or its day if it has little. A clock that is set back
// ends no file, but after so much time a file ends, whatever the clock says: one that was begun while the clock was far
// ahead would go on until then.
func (s *Store) ended(now time.Time) bool {
	e, open := s.file.entry, s.options.Elapsed()-s.began
	if open >= 24*time.Hour || open >= time.Hour && e.Packets+e.Records > s.options.Quiet {
		return true
	}
	if !now.UTC().Truncate(time.Hour).After(e.Opened.Truncate(time.Hour)) {
		return false
	}
	day := now.UTC().Truncate(24 * time.Hour).After(e.Opened.Truncate(24 * time.Hour))
	return day || e.Packets+e.Records > s.options.Quiet
}
