// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// limited says how much room a disk with this many octets has, on which only the store is.
func limited(directory string, octets uint64) func() (uint64, error) {
	return func() (uint64, error) {
		list, err := os.ReadDir(directory)
		if err != nil {
			return 0, err
		}
		free := octets
		for _, f := range list {
			if info, err := f.Info(); err == nil && filepath.Ext(f.Name()) != ".json" {
				free -= min(free, uint64(info.Size()))
			}
		}
		return free, nil
	}
}

// On a disk that the files of some hours fill, each is packed after its hour: older ones leave for it.
func TestPackingOnFullDisk(t *testing.T) {
	t.Parallel()
	c, directory := &clock{at: start}, t.TempDir()
	s, said := opened(t, Options{
		Directory: directory, Reserve: 30 << 20, Quiet: 1, Unpacked: true, Now: c.now, byHand: true, Free: limited(directory, 46<<20),
	})
	left := false
	for hour := range 40 {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		s.settled(t)
		if err := s.Pack(t.Context()); err != nil {
			t.Fatalf("hour %d: %v\n%s", hour, err, said)
		}
		put(t, s, some(200, c.now()))
		files := s.Files()
		if packedFiles(s) < len(files)-1 {
			t.Fatalf("hour %d: %d of %d files are packed\n%s", hour, packedFiles(s), len(files), said)
		}
		left = left || len(files) <= hour
	}
	if p := s.Packing(); p.Done != 39 || p.Failed != 0 || !left {
		t.Errorf("%+v; files left: %v", p, left)
	}
	if n := len(s.Files()); n < 6 {
		t.Errorf("only %d files are kept\n%s", n, said)
	}
}

// A file that is packed waits until a question gives back the room of those that left for it, which is no failure.
func TestPackingWaitsForRoom(t *testing.T) {
	t.Parallel()
	directory := filled(t)
	var free atomic.Uint64
	free.Store(1 << 30)
	c := &clock{at: start.Add(60 * time.Hour)}
	s, said := opened(t, Options{
		Directory: directory, Unpacked: true, Quiet: 1, Now: c.now, byHand: true, Free: func() (uint64, error) { return free.Load(), nil },
	})
	s.Tend(t.Context())
	s.settled(t)
	files := len(s.Files())
	read := func(*Reading) error {
		free.Store(512 << 20)
		if err := s.Pack(t.Context()); err != nil || packedFiles(s) != 0 || s.Packing() != (Packing{}) {
			t.Errorf("%v, %+v\n%s", err, s.Packing(), said)
		}
		return nil
	}
	if err := s.Read(t.Context(), time.Unix(0, 0), start.Add(1000*time.Hour), read); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Files()); n >= files || n < 2 {
		t.Errorf("%d files of %d\n%s", n, files, said)
	}
	free.Store(1 << 30) // it is given back
	clear(s.packer.failed)
	if err := s.Pack(t.Context()); err != nil || packedFiles(s) != len(s.Files())-1 {
		t.Errorf("%v, %d of %d files are packed\n%s", err, packedFiles(s), len(s.Files()), said)
	}
}
