// SPDX-License-Identifier: Apache-2.0

// Package store keeps what the collector receives, in files of DuckDB: one for each hour, or for a day
// when there is little. Only the newest one is written; the others are read-only, and leave by being
// removed. A catalog beside them says what they have.
//
// A file is appended to, in one transaction at a time, and has no indexes: what was written is there
// after the process was killed, and nothing is there twice. Rollups are made from the rows that were
// written, in transactions that note how far they came.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Options configure a Store. Zero fields mean defaults.
type Options struct {
	Directory string
	Age       time.Duration // of the oldest records that are kept: 30 days
	Bytes     int64         // of all files: no limit
	Memory    int64         // bytes of the database's: 1 GB
	Reserve   uint64        // bytes of the disk that stay free: 512 MB
	Quiet     uint64        // a file with at most so many packets and records goes on after its hour: 200,000
	Unpacked  bool          // files stay as they were written, until Pack is called
	Log       func(level slog.Level, text string)
	Missed    func() uint64 // records that were lost before they were written, since the start: none

	Now     func() time.Time
	Elapsed func() time.Duration   // since the start, whatever the clock is set to; by Now, if only that is given
	Free    func() (uint64, error) // bytes of the disk

	byHand bool // only a test calls Tend, by its own clock
}

func (o Options) withDefaults() Options {
	if o.Age == 0 {
		o.Age = 30 * 24 * time.Hour
	}
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	if o.Reserve == 0 {
		o.Reserve = 512 << 20
	}
	if o.Quiet == 0 {
		o.Quiet = 200_000
	}
	if o.Log == nil {
		o.Log = func(slog.Level, string) {}
	}
	if o.Missed == nil {
		o.Missed = func() uint64 { return 0 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Elapsed == nil {
		began, now := o.Now(), o.Now // a time of the system has a monotonic one, too
		o.Elapsed = func() time.Duration { return now().Sub(began) }
	}
	if o.Free == nil {
		o.Free = func() (uint64, error) { return freeBytes(o.Directory) }
	}
	return o
}

// freeBytes is what users of a disk can still write.
func freeBytes(directory string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// Store is an open store. Its methods may be called by several goroutines.
type Store struct {
	options Options
	lock    *os.File

	priorities sync.Once // it was said that they cannot be lowered

	writing sync.Mutex // guards what is written, and the catalog
	catalog *catalog
	file    *open         // nil: none could be opened
	began   time.Duration // since the start, when the file was
	closing []*open
	logged  int64  // octets that the log had when the last checkpoint failed; 0: it succeeded
	fault   string // why nothing is written; "": it is
	cure    string // of the fault; "": it is not known
	misses  misses
	age     ageClock
	removed removed

	refusals refusals

	published atomic.Pointer[published]
	tended    atomic.Pointer[time.Time] // when Tend last ended

	instance sync.RWMutex // held to replace db; before writing
	db       *sql.DB
	helpers  *helpers // of db
	aliases  atomic.Uint64

	attached attached
	packer   packer
	end      func()
	working  sync.WaitGroup
}

// ErrInUse is the error of a store that another process has open.
var ErrInUse error = problem.New("another process has this store open", "end it, or name another directory")

// New opens a store, and makes its directory if that does not exist.
func New(ctx context.Context, options Options) (*Store, error) {
	o := options.withDefaults()
	s := &Store{options: o}
	var err error
	if o.Directory, err = filepath.Abs(o.Directory); err != nil {
		return nil, err
	}
	s.options.Directory = o.Directory
	if err := os.MkdirAll(o.Directory, 0o750); err != nil {
		return nil, problem.Wrap(err, "name a directory that this user may write, or make it")
	}
	if s.lock, err = lockDirectory(o.Directory); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.noteProgress()
	ticks, cancel := context.WithCancel(context.Background())
	s.end = cancel
	if !s.options.byHand {
		s.working.Go(func() { s.tick(ticks) })
	}
	if !s.options.Unpacked {
		s.working.Go(func() { s.packAlways(ticks) })
	}
	return s, nil
}

// lockName is the file that a process locks while it has the store open.
const lockName = "lock"

// lockDirectory lets only one process open a store.
func lockDirectory(directory string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(directory, lockName), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, problem.Wrap(err, "name a directory that this user may write")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", directory, ErrInUse)
	}
	return f, nil
}

func (s *Store) begin(ctx context.Context) (err error) {
	if s.catalog, err = readCatalog(s.options.Directory); err != nil {
		return err
	}
	if err := s.catalog.finish(s.options.Directory); err != nil {
		return err
	}
	if err := removeParts(s.options.Directory); err != nil {
		return err
	}
	if err = s.openDatabase(); err != nil {
		return err
	}
	s.attached.files = map[string]*reading{}
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.publish()
	s.misses.looked = s.now()
	s.age = newAgeClock(s.catalog.latest(s.now()), s.options.Age, s.options.Elapsed())
	s.catalog.endMissing(s.now())
	s.settleFiles(ctx)
	s.retain()
	if err := s.ensureFile(ctx); err != nil {
		s.refuse(err)
	}
	return s.catalog.write(s.options.Directory)
}

// now is what the clock says. It has no monotonic time: two times of the process would otherwise be as far apart as what
// passed between them, whatever the clock was set to.
func (s *Store) now() time.Time { return s.options.Now().Round(0) }

func (s *Store) path(name string) string {
	return filepath.Join(s.options.Directory, name+suffix)
}

func (s *Store) nextAlias() string { return fmt.Sprintf("f%d", s.aliases.Add(1)) }

// settleFiles looks at the files of which the catalog does not say that they are closed: all but the newest
// are closed now.
func (s *Store) settleFiles(ctx context.Context) {
	var unsettled []*Entry
	handles := s.handles()
	for _, e := range s.catalog.Files {
		if (e.State == Open || e.State == "" || e.State == Unreadable) && handles[e.Name] == nil {
			unsettled = append(unsettled, e)
		}
	}
	for i, e := range unsettled {
		known := e.State
		f, err := s.openFile(ctx, e)
		if err != nil {
			if known != Unreadable || damaged(err) {
				s.unreadable(e, err)
			}
			continue
		}
		if e.State = Open; i == len(unsettled)-1 && e == s.newest() && e.Version == Version && !f.packed {
			s.file, s.began = f, s.options.Elapsed()
			return
		}
		e.Packed = f.packed
		s.closed(e, s.helpers.help(func() error { return f.close(ctx, true) }))
	}
}

// newest is the file that was begun last.
func (s *Store) newest() *Entry {
	if n := len(s.catalog.Files); n > 0 {
		return s.catalog.Files[n-1]
	}
	return nil
}

// unreadable notes that a file cannot be opened. One that is damaged is moved away.
func (s *Store) unreadable(e *Entry, err error) {
	e.State, e.Reason = Unreadable, firstLine(err)
	if e.Closed.IsZero() {
		e.Closed = e.Opened.Add(time.Hour)
		if info, err := os.Stat(s.path(e.Name)); err == nil {
			e.Closed = info.ModTime()
		}
	}
	if !damaged(err) {
		s.options.Log(slog.LevelError, fmt.Sprintf("%s cannot be read: %s", s.path(e.Name), e.Reason))
		return
	}
	aside := filepath.Join(s.options.Directory, asideName)
	fault := os.MkdirAll(aside, 0o750)
	for _, end := range withLogs {
		if err := os.Rename(s.path(e.Name)+end, filepath.Join(aside, e.Name+suffix+end)); err != nil && !errors.Is(err, os.ErrNotExist) {
			fault = errors.Join(fault, err)
		}
	}
	if fault != nil {
		s.options.Log(slog.LevelError, fmt.Sprintf("%s is damaged (%s), and cannot be moved away: %v", s.path(e.Name), e.Reason, fault))
		return
	}
	e.State = SetAside
	s.options.Log(slog.LevelError,
		fmt.Sprintf("%s is damaged and was moved to %s: %s; what it had is missing", e.Name+suffix, aside, e.Reason))
}

// damaged reports whether an error says that a file's contents are wrong, which no later attempt cures.
func damaged(err error) bool {
	var of *duckdb.Error
	if errors.As(err, &of) &&
		(of.Type == duckdb.ErrorTypeSerialization || of.Type == duckdb.ErrorTypeInternal || of.Type == duckdb.ErrorTypeFatal) {
		return true
	}
	text := strings.ToLower(err.Error())
	for _, sign := range []string{
		"not a valid duckdb", "corrupt", "checksum", "replaying wal", "serialization error", "could not read enough bytes",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// ensureFile begins a file if none is open.
func (s *Store) ensureFile(ctx context.Context) error {
	if s.file != nil {
		return nil
	}
	now := s.now()
	s.began = s.options.Elapsed()
	e := &Entry{Name: s.catalog.newName(s.options.Directory, now), State: Open, Opened: now.UTC()}
	if last := s.newest(); last != nil && !e.Opened.After(last.Opened) {
		e.Opened = last.Opened.Add(time.Nanosecond) // the clock was set back: files stay in their order
	}
	f, err := s.openFile(ctx, e)
	if err != nil {
		_ = os.Remove(s.path(e.Name)) // it has nothing yet
		return fmt.Errorf("begin %s: %w", s.path(e.Name), err)
	}
	s.file, s.logged = f, 0
	s.catalog.Files = append(s.catalog.Files, e)
	return s.catalog.write(s.options.Directory)
}

// retire ends a file: it is complete. It is closed when no query reads it any more; another one is written
// meanwhile.
func (s *Store) retire(f *open) {
	s.closing = append(s.closing, f)
	helpers := s.helpers
	s.working.Go(func() {
		f.using.Lock()
		defer f.using.Unlock()
		err := helpers.help(func() error {
			return s.niced(niceRollup, func() error { return f.close(context.Background(), true) })
		})
		f.gone = true
		s.writing.Lock()
		defer s.writing.Unlock()
		defer s.publish() // before the file is let go of
		s.closing = slices.DeleteFunc(s.closing, func(g *open) bool { return g == f })
		s.closed(f.entry, err)
		if err := s.catalog.write(s.options.Directory); err != nil {
			s.options.Log(slog.LevelError, "the catalog is not written: "+err.Error())
		}
	})
}

// closed notes that a file was closed.
func (s *Store) closed(e *Entry, err error) {
	if err != nil {
		s.options.Log(slog.LevelWarn, fmt.Sprintf("close %s: %s; it is tried again", s.path(e.Name), firstLine(err)))
		return
	}
	e.State, e.Closed, e.Reason = Closed, s.now().UTC(), ""
	s.updateSize(e)
	_ = os.Chmod(s.path(e.Name), 0o440) // for people; a process of root may write it
}

// Close makes the rollups of what was written, and closes all files.
func (s *Store) Close() error {
	if s.end != nil {
		s.end()
		s.working.Wait()
	}
	s.instance.Lock()
	defer s.instance.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	var errs []error
	if s.file != nil {
		errs = append(errs, s.helpers.help(func() error { return s.file.close(context.Background(), false) }))
		s.updateSize(s.file.entry)
		s.file = nil
	}
	if s.catalog != nil {
		s.lookForMissed(s.now()) // the sink has counted what it could not write at the end
		s.written()
	}
	if s.db != nil {
		errs = append(errs, s.closeDatabase())
	}
	if s.catalog != nil {
		errs = append(errs, s.catalog.write(s.options.Directory))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

// updateSize updates the size of a file that is written.
func (s *Store) updateSize(e *Entry) {
	e.Bytes = 0
	for _, end := range withLogs {
		if info, err := os.Stat(s.path(e.Name) + end); err == nil {
			e.Bytes += info.Size()
		}
	}
}

// Fault is why nothing is written now, and the cure, if that is known; "": it is written.
func (s *Store) Fault() (fault, cure string) {
	now := s.published.Load()
	return now.fault, now.cure
}

// Directory is where the files are.
func (s *Store) Directory() string { return s.options.Directory }

// Free is how many bytes the disk has left.
func (s *Store) Free() (uint64, error) { return s.options.Free() }

// refuse notes why nothing is written. The sink that wanted to write says so.
func (s *Store) refuse(err error) {
	began := s.fault == ""
	if began {
		s.lookForMissed(s.now()) // what was lost until now has another reason
	}
	text, cure := problem.Of(err)
	s.fault, _, _ = strings.Cut(text, "\n")
	if s.cure = cure; began {
		s.beginMissing(s.now())
	}
}
