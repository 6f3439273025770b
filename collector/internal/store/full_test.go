// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// small mounts a file system of this size, and returns where it is.
func small(t *testing.T, octets int) string {
	t.Helper()
	directory := t.TempDir()
	if err := unix.Mount("waymark-test", directory, "tmpfs", 0, fmt.Sprintf("size=%d", octets)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// fill writes a file outside the store, so large that the file system has only `left` octets free.
func fill(t *testing.T, directory string, left uint64) (ballast string) {
	t.Helper()
	free, err := freeBytes(directory)
	if err != nil {
		t.Fatal(err)
	}
	ballast = filepath.Join(directory, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyN(f, zeros{}, int64(free-left)); err != nil {
		t.Fatal(err)
	}
	return ballast
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// sound fails the test if a file of the store cannot be read, or all files together do not have this number of packets.
func sound(t *testing.T, directory string, want int) {
	t.Helper()
	files, written, err := Check(t.Context(), directory, 256<<20)
	if err != nil || len(written) != 0 {
		t.Fatal(written, err)
	}
	got := 0
	for _, f := range files {
		got += int(f.Packets)
		if f.Fault != nil || f.State == SetAside {
			t.Errorf("%s, %s: %v", f.Name, f.State, f.Fault)
		}
	}
	if got != want {
		t.Errorf("%d packets, want %d", got, want)
	}
}

// A disk that is really full: the kernel refuses what the database writes, into the log or, with more room, into the tables
// when the log is large. What was written is read, nothing is there twice or damaged, and as soon as there is room, writing
// goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("log", func(t *testing.T) { t.Parallel(); testFullDisk(t, 3<<20, false) })
	t.Run("checkpoint", func(t *testing.T) { t.Parallel(); testFullDisk(t, mostOfLog+2<<20, true) })
}

// testFullDisk leaves that much room on the disk. fails: it is enough for a log that is moved into the tables, and not for these.
func testFullDisk(t *testing.T, left uint64, fails bool) {
	directory := small(t, 96<<20)
	o := Options{Directory: filepath.Join(directory, "store"), Memory: 256 << 20, Reserve: 1, Unpacked: true}
	s, said := opened(t, o)
	at, kept := time.Now().Add(-time.Minute), 1000
	put(t, s, some(kept, at))
	ballast := fill(t, directory, left)
	for refused := 0; refused < 5; {
		if kept > 300_000 {
			t.Fatal("the disk has room for all")
		}
		done, err := s.writeRecords(t.Context(), some(1000, at))
		if kept += done; err != nil {
			checkpoint := strings.Contains(err.Error(), "move the log of ")
			if refused++; checkpoint != (fails && refused == 1) { // it is not tried again before the log has grown as much again
				t.Errorf("refused %d: %v", refused, err)
			}
			if fault := faultOf(s); checkpoint && (done != 1000 || fault != "") { // nothing is missing
				t.Errorf("%d of 1000 were written, and %q", done, fault)
			}
		}
		s.Tend(t.Context())
	}
	if faultOf(s) == "" {
		t.Error("no fault")
	}
	if got := ask(t, s, countPackets); got != float64(kept) {
		t.Errorf("%v packets are read of %d\n%s", got, kept, said)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(o.Directory)); err != nil {
		t.Fatal(err)
	}
	sound(t, killed, kept) // what is left of a collector that is killed now
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	put(t, s, some(1000, at))
	kept += 1000
	if got := ask(t, s, countPackets); got != float64(kept) || faultOf(s) != "" {
		t.Errorf("with room again: %v packets of %d, %q\n%s", got, kept, faultOf(s), said)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	sound(t, o.Directory, kept)
}

// hours is a store on a small file system, with a file of each of n hours.
func hours(t *testing.T, n int) (directory string, s *Store, c *clock, said *notes) {
	t.Helper()
	directory, c = small(t, 96<<20), &clock{at: start}
	s, said = opened(t, Options{
		Directory: filepath.Join(directory, "store"), Memory: 256 << 20, Reserve: 48 << 20, Quiet: 1, Unpacked: true, Now: c.now, byHand: true,
	})
	for hour := range n {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		s.settled(t)
		put(t, s, some(1000, c.now()))
	}
	return directory, s, c, said
}

// When others fill the disk, the oldest files leave, and what is new is written.
func TestOldestLeave(t *testing.T) {
	t.Parallel()
	directory, s, c, said := hours(t, 3)
	before := s.Files()
	if len(before) != 3 {
		t.Fatal(before)
	}
	// As much room is missing as a part of the oldest file has.
	fill(t, directory, 48<<20-uint64(before[0].Bytes)/2)
	put(t, s, some(1000, c.now()))
	if after := s.Files(); len(after) != 2 || after[0].Name != before[1].Name {
		t.Errorf("%v, before %v\n%s", after, before, said)
	}
	if got := ask(t, s, countPackets); got != 3000 {
		t.Errorf("%v packets", got)
	}
	if got := s.Removed(); got["disk"] != 1 || got["age"]+got["size"] != 0 {
		t.Errorf("removed: %v", got)
	}
	if text := said.String(); !strings.Contains(text, "WARN "+s.path(before[0].Name)+" was removed: the disk has ") ||
		!strings.Contains(text, "set store.age or store.size to what the disk can hold") {
		t.Error(text)
	}
}

// A file that a question reads gives its room back when the question ends: until then, no more files leave than are needed.
func TestOldestLeaveWhileRead(t *testing.T) {
	t.Parallel()
	directory, s, c, said := hours(t, 5)
	before := s.Files()
	expect := func(when string, leave int) {
		t.Helper()
		put(t, s, some(10, c.now()))
		if after := s.Files(); len(after) != len(before)-leave || after[0].Name != before[leave].Name {
			t.Errorf("%s: %d files of %d\n%s", when, len(after), len(before), said)
		}
	}
	var ballast string
	read := func(*Reading) error {
		ballast = fill(t, directory, 48<<20-uint64(before[0].Bytes)/2)
		for range 5 {
			expect("while a question reads all files", 1)
		}
		c.set(c.now().Add(10 * time.Minute)) // a question's end is known, however long it takes
		expect("later", 1)
		return nil
	}
	if err := s.Read(t.Context(), time.Unix(0, 0), start.Add(1000*time.Hour), read); err != nil {
		t.Fatal(err)
	}
	if free, err := freeBytes(directory); err != nil || free < 48<<20 {
		t.Errorf("%d octets are free; %v", free, err)
	}
	expect("after the question", 1)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	fill(t, directory, 48<<20-uint64(before[1].Bytes)/2)
	expect("the room was given back, and is not counted again", 2)
}

// A file system that never gives back the room of removed files, as one with snapshots, is not believed for ever.
func TestRoomThatDoesNotCome(t *testing.T) {
	t.Parallel()
	c, free := &clock{at: start}, uint64(10<<30)
	s, said := opened(t, Options{
		Directory: t.TempDir(), Reserve: 512 << 20, Quiet: 1, Unpacked: true, Now: c.now, byHand: true,
		Free: func() (uint64, error) { return free, nil },
	})
	for hour := range 4 {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		s.settled(t)
		put(t, s, some(100, c.now()))
	}
	free = 511 << 20
	for _, one := range []struct {
		passed time.Duration
		files  int
	}{{0, 3}, {givesBack / 2, 3}, {givesBack, 2}, {givesBack / 2, 2}, {givesBack, 1}} {
		c.set(c.now().Add(one.passed))
		put(t, s, some(1, c.now()))
		if got := len(s.Files()); got != one.files {
			t.Errorf("after %v more: %d files, want %d\n%s", one.passed, got, one.files, said)
		}
	}
	// What stays free is not used up meanwhile.
	free = 100 << 20
	s.writing.Lock()
	s.expectRoom(500<<20, nil)
	s.writing.Unlock()
	if err := s.Write(t.Context(), some(1, c.now())); err == nil || len(s.Files()) != 1 {
		t.Errorf("%v, %d files", err, len(s.Files()))
	} else if fault := faultOf(s); !strings.Contains(fault, "wait for the questions") {
		t.Error(fault)
	}
}
