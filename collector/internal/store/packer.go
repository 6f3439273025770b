// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/duckdb/duckdb-go/v2"
)

const (
	// packEach is the time between two looks for files that are closed and not packed.
	packEach = 5 * time.Second
	// packAgain is the time after which a file that could not be packed is tried again.
	packAgain = 10 * time.Minute
	// packSoon is the time after which a file is tried again for which room comes.
	packSoon = 10 * time.Second
	// packMemory is what the database that packs takes at most, besides the one that writes and answers: a quarter of that
	// one's, and not more than this, nor less than leastMemory.
	packMemory  = 256 << 20
	leastMemory = 64 << 20
	// packScratch is the directory in that of the store for what needs more memory.
	packScratch = "packing"
	// partSuffix is that of a packed file that is not complete.
	partSuffix = ".part"
)

// packer packs the files that are closed, one at a time.
type packer struct {
	turn sync.Mutex // of the one that packs

	mu     sync.Mutex
	state  Packing
	failed map[string]time.Time // files that could not be packed, or wait for room, and when they are tried again
}

// Packing says what came of packing since the store was opened.
type Packing struct {
	Done   uint64 // files that were packed
	Failed uint64 // attempts that failed
	Saved  int64  // bytes
	Fault  string // why the last attempt failed; "": it did not
}

// Packing is what came of packing until now.
func (s *Store) Packing() Packing {
	s.packer.mu.Lock()
	defer s.packer.mu.Unlock()
	return s.packer.state
}

// packAlways packs files after they were closed.
func (s *Store) packAlways(ctx context.Context) {
	each := time.NewTicker(packEach)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			_ = s.Pack(ctx) // it is in the state
		case <-ctx.Done():
			return
		}
	}
}

// Pack packs the files that are closed, the newest first. A file that cannot be packed stays as it is, and is tried
// again later.
func (s *Store) Pack(ctx context.Context) error {
	s.packer.turn.Lock()
	defer s.packer.turn.Unlock()
	var errs []error
	for ctx.Err() == nil {
		e, ok := s.unpacked()
		if !ok {
			return errors.Join(errs...)
		}
		switch err := s.pack(ctx, e); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, errRoomComes):
			s.packLater(e.Name, packSoon)
		default:
			errs = append(errs, err)
			s.packFailed(e.Name, err)
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// unpacked is the newest file that is closed and not packed, of those that did not fail lately.
func (s *Store) unpacked() (Entry, bool) {
	s.packer.mu.Lock()
	defer s.packer.mu.Unlock()
	files := s.published.Load().files
	maps.DeleteFunc(s.packer.failed, func(name string, _ time.Time) bool { // those that left
		return !slices.ContainsFunc(files, func(e Entry) bool { return e.Name == name })
	})
	if len(s.packer.failed) == 0 {
		s.packer.state.Fault = ""
	}
	for i := len(files) - 1; i >= 0; i-- {
		if e := files[i]; e.State == Closed && !e.Packed && !time.Now().Before(s.packer.failed[e.Name]) {
			return e, true
		}
	}
	return Entry{}, false
}

func (s *Store) packLater(name string, wait time.Duration) {
	p := &s.packer
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = map[string]time.Time{}
	}
	p.failed[name] = time.Now().Add(wait)
}

func (s *Store) packFailed(name string, err error) {
	s.packLater(name, packAgain)
	p := &s.packer
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Failed++
	before := p.state.Fault
	if p.state.Fault = firstLine(err); before == "" { // once, although the number of octets changes
		s.options.Log(slog.LevelWarn, "files are not packed, and take more of the disk: "+p.state.Fault)
	}
}

// pack writes the packed file of a file, and puts it in its place.
func (s *Store) pack(ctx context.Context, e Entry) error {
	if err := s.roomToPack(e); err != nil {
		return err
	}
	part := s.path(e.Name) + partSuffix
	defer func() { _ = removeParts(s.options.Directory) }()
	err := s.packInto(ctx, e, part, false)
	if ctx.Err() == nil && withoutFlows(err) {
		s.options.Log(slog.LevelWarn, flowlessWarning(e.Name, err))
		err = errors.Join(removeFiles(part, part+".wal"), s.packInto(ctx, e, part, true))
	}
	switch {
	case errors.Is(err, errPacked):
		return s.packed(e.Name, "") // the catalog was older
	case err != nil:
		return fmt.Errorf("pack %s: %w", e.Name+suffix, err)
	}
	return s.packed(e.Name, part)
}

// packInto writes the packed file of a file.
func (s *Store) packInto(ctx context.Context, e Entry, part string, flowless bool) error {
	scratch := filepath.Join(s.options.Directory, packScratch)
	return s.niced(nicePacking, func() error {
		// A database of its own: an error such as a full disk ends the one in which it happens.
		db, err := database(max(min(s.options.Memory/4, packMemory), leastMemory), 1, scratch, s.options.Directory)
		if err != nil {
			return err
		}
		return errors.Join(packFile(ctx, db, s.path(e.Name), part, flowless), db.Close())
	})
}

// withoutFlows reports whether packing may succeed without rollups by flow: of all that it makes, only these grow with
// more than the packets.
func withoutFlows(err error) bool {
	var ofFlows *flowsError
	var of *duckdb.Error
	return errors.As(err, &ofFlows) || errors.As(err, &of) && of.Type == duckdb.ErrorTypeOutOfMemory
}

// flowlessWarning says that a file is packed without rollups by flow.
func flowlessWarning(name string, err error) string {
	return fmt.Sprintf("%s gets no rollups by flow, and questions about the packets of some addresses take longer: %s",
		name+suffix, firstLine(err))
}

// packed puts a packed file in the place of the file that it was made of, by renaming it: after a kill, there is either
// one or the other. "": the file is packed.
func (s *Store) packed(name, part string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := s.catalog.find(name)
	if e == nil || e.State != Closed { // it left meanwhile
		return nil
	}
	defer s.publish()
	before := e.Bytes
	if part != "" {
		if err := os.Rename(part, s.path(name)); err != nil {
			return err
		}
		if err := syncDirectory(s.options.Directory); err != nil {
			return err
		}
		s.expectRoom(before, s.detach(name))
	}
	e.Packed, e.Version = true, Version
	s.updateSize(e)
	s.packer.mu.Lock()
	s.packer.state.Done, s.packer.state.Saved, s.packer.state.Fault = s.packer.state.Done+1, s.packer.state.Saved+before-e.Bytes, ""
	delete(s.packer.failed, name)
	s.packer.mu.Unlock()
	return s.catalog.write(s.options.Directory)
}

// syncDirectory makes sure that names are on the disk.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeParts removes packed files that are not complete.
func removeParts(directory string) error {
	list, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	errs := []error{os.RemoveAll(filepath.Join(directory, packScratch))}
	for _, f := range list {
		if name := strings.TrimSuffix(f.Name(), ".wal"); strings.HasSuffix(name, suffix+partSuffix) || name == compactPart {
			errs = append(errs, os.Remove(filepath.Join(directory, f.Name())))
		}
	}
	return errors.Join(errs...)
}
