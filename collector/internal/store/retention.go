// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// retain removes the files that are older than records are kept, and the oldest ones while all have more
// bytes than they may. A clock that is set back removes nothing.
func (s *Store) retain() {
	oldest := s.now().Add(-s.options.Age)
	s.catalog.forgetMissing(oldest)
	for _, e := range slices.Clone(s.catalog.Files) {
		if e.State == Open || !s.over(e).Before(oldest) {
			continue
		}
		s.remove(e, "it is older than "+s.options.Age.String())
	}
	for s.options.Bytes > 0 && s.bytes() > s.options.Bytes {
		if !s.removeOldest(fmt.Sprintf("the files of the store may have %s (store.size)", megabytes(uint64(s.options.Bytes)))) {
			return
		}
	}
}

// over is when a file was closed.
func (s *Store) over(e *Entry) time.Time {
	if e.Closed.IsZero() {
		return e.Opened.Add(24 * time.Hour)
	}
	return e.Closed
}

func (s *Store) bytes() (total int64) {
	for _, e := range s.catalog.Files {
		total += e.Bytes
	}
	return total
}

// room makes sure that the disk has more room than stays free: the oldest files leave first.
func (s *Store) room() error {
	for {
		free, err := s.options.Free()
		if err != nil || free >= s.options.Reserve {
			return nil // what cannot be known does not hinder
		}
		why := fmt.Sprintf("the disk has %s free, and %s are to stay free (store.free)", megabytes(free), megabytes(s.options.Reserve))
		if !s.removeOldest(why) {
			// without a number that changes, so that it is one state
			return problem.New(fmt.Sprintf("the disk has less free than the %s that are to stay free (store.free), and there is no file to remove",
				megabytes(s.options.Reserve)), "make room on the disk, or set store.free to less")
		}
	}
}

// megabytes is a number of octets for people.
func megabytes(octets uint64) string { return fmt.Sprintf("%d MB", octets/1e6) }

// removeOldest removes the oldest file that is not written.
func (s *Store) removeOldest(why string) bool {
	for _, e := range s.catalog.Files {
		if e.State != Open {
			return s.remove(e, why)
		}
	}
	return false
}

// remove removes a file. Queries that read it go on: the file's octets stay until it is closed.
func (s *Store) remove(e *Entry, why string) bool {
	path := s.path(e.Name)
	if e.State == SetAside {
		path = filepath.Join(s.options.Directory, asideName, e.Name+suffix)
	}
	for _, end := range []string{"", ".wal"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.options.Note(slog.LevelWarn, fmt.Sprintf("%s is not removed: %v", path, err))
			return false
		}
	}
	s.catalog.Files = slices.DeleteFunc(s.catalog.Files, func(f *Entry) bool { return f == e })
	s.detach(e.Name)
	s.options.Note(slog.LevelInfo, fmt.Sprintf("%s was removed: %s", path, why))
	return true
}
