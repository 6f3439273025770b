// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// givesBack is how long a file system may take to give back the room of a removed file. One with snapshots never does.
const givesBack = 30 * time.Second

// removed is the room of removed files that the disk has not given back yet.
type removed struct {
	files  []removedFile
	free   uint64                              // on the disk, at the last look
	counts [len(causesOfRemoval)]atomic.Uint64 // since the store was opened
}

// cause is why a file leaves.
type cause int

const (
	ofAge cause = iota
	ofSize
	ofDisk
)

var causesOfRemoval = [...]string{ofAge: "age", ofSize: "size", ofDisk: "disk"}

// Removed is how many files left since the store was opened, by cause: age, size or disk.
func (s *Store) Removed() map[string]uint64 {
	counts := map[string]uint64{}
	for i, name := range causesOfRemoval {
		counts[name] = s.removed.counts[i].Load()
	}
	return counts
}

type removedFile struct {
	octets uint64
	read   *reading      // the file as questions still read it; nil: no question reads it
	since  time.Duration // since the start, when it was removed or the last question ended
}

// expectRoom notes that the disk is to give back the room of a file. read is the file as questions still read it, or nil.
func (s *Store) expectRoom(octets int64, read *reading) {
	if octets > 0 {
		s.removed.files = append(s.removed.files, removedFile{uint64(octets), read, s.options.Elapsed()})
	}
}

// space is what the disk has free, and what removed files will give back. Without the latter, one question about
// everything would let all files leave, because none gives its room back before the question ends.
func (s *Store) space() (free, coming uint64, err error) {
	if free, err = s.options.Free(); err != nil {
		return 0, 0, err
	}
	r, elapsed := &s.removed, s.options.Elapsed()
	var given uint64
	if free > r.free {
		given = free - r.free
	}
	r.free = free
	r.files = slices.DeleteFunc(r.files, func(f removedFile) bool { return f.octets == 0 })
	for i := range r.files {
		f := &r.files[i]
		if s.isRead(f.read) {
			coming += f.octets
			continue
		}
		if f.read != nil {
			f.read, f.since = nil, elapsed
		}
		here := min(given, f.octets)
		if f.octets, given = f.octets-here, given-here; elapsed-f.since > givesBack {
			f.octets = 0 // not believed any more
		}
		coming += f.octets
	}
	return free, coming, nil
}

// room makes sure that the disk has more room than stays free: the oldest files leave first.
func (s *Store) room() error {
	reserve := s.options.Reserve
	for {
		free, coming, err := s.space()
		switch {
		case err != nil || free >= reserve:
			return nil // what cannot be known does not hinder
		case free+coming >= reserve && free >= reserve/4:
			return nil
		case free+coming >= reserve:
			return problem.New(fmt.Sprintf("the disk has less free than a quarter of the %s that are to stay free (store.free), and "+
				"has not given back the room of removed files", megabytes(reserve)), "wait for the questions that still read these files")
		}
		why := fmt.Sprintf("the disk has %s free, and %s are to stay free (store.free)", megabytes(free), megabytes(reserve))
		if !s.removeOldest(ofDisk, why) {
			// without a number that changes, so that it is one state
			return problem.New(fmt.Sprintf("the disk has less free than the %s that are to stay free (store.free), and there is no file to remove",
				megabytes(reserve)), "make room on the disk, or set store.free to less")
		}
	}
}

// errRoomComes is the error of packing a file for which removed files will give their room back.
var errRoomComes = errors.New("questions still read the files that were removed for it")

// roomToPack lets the files leave that are older than one that is packed, until packing has room besides what stays free.
// On a disk that is full of files, none would be packed otherwise.
func (s *Store) roomToPack(packed Entry) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.publish()
	need := s.options.Reserve + uint64(packed.Bytes)
	for {
		free, coming, err := s.space()
		switch {
		case err != nil || free >= need:
			return nil // what cannot be known does not hinder
		case free+coming >= need:
			return errRoomComes
		}
		why := fmt.Sprintf("the disk has %s free, and packing %s needs up to %s more than the %s that stay free (store.free)",
			megabytes(free), packed.Name+suffix, megabytes(uint64(packed.Bytes)), megabytes(s.options.Reserve))
		if free+coming+s.olderThan(packed) < need || !s.removeOldest(ofDisk, why) {
			return problem.New(why, "make room, or set store.free to less")
		}
	}
}

// olderThan is how many octets files have that are older than another one.
func (s *Store) olderThan(other Entry) (octets uint64) {
	for _, e := range s.catalog.Files {
		if e.State != Open && e.Opened.Before(other.Opened) {
			octets += uint64(e.Bytes)
		}
	}
	return octets
}

// megabytes is a number of octets for people.
func megabytes(octets uint64) string { return fmt.Sprintf("%d MB", octets/1e6) }

// removeOldest removes the oldest file that is not written.
func (s *Store) removeOldest(of cause, why string) bool {
	for _, e := range s.catalog.Files {
		if e.State != Open {
			return s.remove(e, of, why)
		}
	}
	return false
}

// remove removes a file. Queries that read it go on: the file's octets stay until it is closed.
func (s *Store) remove(e *Entry, of cause, why string) bool {
	path := s.path(e.Name)
	if e.State == SetAside {
		path = filepath.Join(s.options.Directory, asideName, e.Name+suffix)
	}
	for _, end := range withLogs {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.options.Log(slog.LevelWarn, fmt.Sprintf("%s is not removed: %v", path, err))
			return false
		}
	}
	s.catalog.Files = slices.DeleteFunc(s.catalog.Files, func(f *Entry) bool { return f == e })
	s.catalog.leave(e)
	s.expectRoom(e.Bytes, s.detach(e.Name))
	s.removed.counts[of].Add(1)
	text, level := fmt.Sprintf("%s was removed: %s", path, why), slog.LevelInfo
	if of == ofDisk { // age and size are as was wanted
		text, level = problem.New(text, "make room, or set store.age or store.size to what the disk can hold").Error(), slog.LevelWarn
	}
	s.options.Log(level, text)
	return true
}

// left is the part of a time of which files have left.
func (s *Store) left(from, until time.Time) []Gap {
	now := s.published.Load()
	end := now.left
	for _, bound := range []time.Time{first(now.files), until} {
		if !bound.IsZero() && bound.Before(end) {
			end = bound
		}
	}
	if !from.Before(end) {
		return nil
	}
	return []Gap{{From: from, Until: end, Reason: "older files have left (store.age, store.size or the disk)", Left: true}}
}
