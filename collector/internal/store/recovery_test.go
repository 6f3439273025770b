// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// TestMain is also the process that TestKilled kills: it writes batches of 500 packets, and says how many are
// written; and the one of TestPackingKilled, which packs files.
func TestMain(m *testing.M) {
	directory, packed := os.Getenv("WAYMARK_STORE_TO_WRITE"), os.Getenv("WAYMARK_STORE_TO_PACK")
	var err error
	switch {
	case directory != "":
		err = writeForever(directory)
	case packed != "":
		err = packOnce(packed)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeForever(directory string) error {
	c := &clock{at: start}
	s, err := New(
		context.Background(),
		Options{Directory: directory, Now: c.now, Quiet: 3000, Log: func(_ slog.Level, text string) { fmt.Fprintln(os.Stderr, text) }},
	)
	if err != nil {
		return err
	}
	written, err := strconv.Atoi(os.Getenv("WAYMARK_STORE_WRITTEN"))
	if err != nil {
		return err
	}
	for ; ; written += 500 {
		// A minute for each batch, so that rollups are made and files change all the time.
		c.set(start.Add(time.Duration(written/500) * 10 * time.Minute))
		if err := s.Write(context.Background(), some(500, c.now())); err != nil {
			return err
		}
		fmt.Println(written + 500)
		s.Tend(context.Background())
	}
}

// A process that is killed at any moment loses nothing that was written, and writes nothing twice; rollups
// agree with the packets.
func TestKilled(t *testing.T) {
	directory, written := t.TempDir(), 0
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WAYMARK_STORE_TO_WRITE="+directory, fmt.Sprintf("WAYMARK_STORE_WRITTEN=%d", written))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 3+2*round && lines.Scan(); n++ {
			written, _ = strconv.Atoi(lines.Text())
		}
		time.Sleep(time.Duration(round*7) * time.Millisecond) // somewhere in the next transaction, rollup or file
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // said before it was killed
			written, _ = strconv.Atoi(lines.Text())
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		begun := time.Now()
		s, said := opened(t, Options{Directory: directory, Now: (&clock{at: start.Add(100 * time.Hour)}).now})
		if took := time.Since(begun); took > patience.Of(time.Second) {
			t.Errorf("opening took %v", took)
		}
		s.writing.Lock()
		if s.file != nil {
			if err := s.file.rollUp(t.Context()); err != nil {
				t.Error(err)
			}
		}
		s.writing.Unlock()
		got := int(ask(t, s, countPackets))
		if got != written && got != written+500 { // the last transaction may have ended before it was said
			t.Fatalf("round %d: %d packets, want %d or one batch more; %s", round, got, written, said)
		}
		written = got
		if rolled := int(ask(t, s, "SELECT packets AS n FROM FILE(path_1m)")); rolled != got {
			t.Errorf("round %d: %d packets in rollups, %d in all", round, rolled, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Files end with their hour, or with their day when they have little, and the newest is written.
func TestFilesOfHoursAndDays(t *testing.T) {
	c := &clock{at: start}
	s, _ := opened(t, Options{Directory: t.TempDir(), Now: c.now, Quiet: 100, byHand: true})
	names := func() (list []string) {
		for _, e := range s.Files() {
			list = append(list, e.Name+" "+string(e.State))
		}
		return list
	}
	wait := func(want ...string) {
		t.Helper()
		end := time.Now().Add(patience.Of(10 * time.Second))
		for strings.Join(names(), ",") != strings.Join(want, ",") {
			if time.Now().After(end) {
				t.Fatalf("%v, want %v", names(), want)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	at := func(when time.Time, packets int) {
		t.Helper()
		c.set(when)
		s.Tend(t.Context())
		put(t, s, some(packets, when))
	}
	at(start, 200)
	at(start.Add(time.Hour), 50)     // the first hour was busy
	at(start.Add(2*time.Hour), 50)   // the second was not
	at(start.Add(3*time.Hour), 10)   // still 100
	at(start.Add(4*time.Hour), 1)    // more than 100
	at(start.Add(12*time.Hour), 1)   // the next day
	at(start.Add(12*time.Hour), 999) // the same hour
	at(start.Add(-6*time.Hour), 5)   // the clock was set back
	wait("2026-11-21T12 closed", "2026-11-21T13 closed", "2026-11-21T16 closed", "2026-11-22T00 open")
	if got := ask(t, s, countPackets); got != 200+50+50+10+1+1+999+5 {
		t.Errorf("%v packets", got)
	}
	if got, hours := ask(t, s, "SELECT packets AS n FROM FILE(path_1m)"), ask(t, s, "SELECT packets AS n FROM FILE(path_1h)"); hours != 311 ||
		got < 311 {
		t.Errorf("%v packets in minutes, %v in hours", got, hours)
	}
	// Another start with a clock that is behind goes on with the newest file.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = opened(t, s.options)
	put(t, s, some(5, start))
	wait("2026-11-21T12 closed", "2026-11-21T13 closed", "2026-11-21T16 closed", "2026-11-22T00 open")
}

// Old files leave by age, by size and for the disk's sake; without one to remove, nothing is written, and
// questions are answered.
func TestRetention(t *testing.T) {
	c, free := &clock{at: start}, uint64(10<<30)
	o := Options{
		Directory: t.TempDir(), Now: c.now, Quiet: 1, Age: 5 * time.Hour, Free: func() (uint64, error) { return free, nil },
		Unpacked: true, // a file that is packed meanwhile has another size
	}
	s, said := opened(t, o)
	for hour := range 8 {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		s.settled(t)
		put(t, s, some(100, c.now()))
	}
	if files := s.Files(); len(files) != 7 || files[0].Name != "2026-11-21T13" { // closed at 14:00, as old as is kept
		t.Errorf("%d files from %s\n%s", len(files), files[0].Name, said)
	}
	s.writing.Lock()
	s.options.Bytes = 3 * s.catalog.Files[0].Bytes
	s.retain()
	s.publish()
	s.writing.Unlock()
	left := len(s.Files())
	if left > 4 || left < 2 {
		t.Errorf("%d files\n%s", left, said)
	}
	free = 1
	err := s.Write(t.Context(), some(10, c.now()))
	if err == nil || !strings.Contains(err.Error(), "are to stay free (store.free)") || len(s.Files()) != 1 || faultOf(s) == "" {
		t.Errorf("%v, %d files", err, len(s.Files()))
	}
	if got := ask(t, s, countPackets); got != 100 {
		t.Errorf("%v packets are read", got)
	}
	if got := s.Removed(); got["age"] != 1 || got["size"] != uint64(7-left) || got["disk"] != uint64(left-1) {
		t.Errorf("%v, %d left by size\n%s", got, 7-left, said)
	}
	free = 10 << 30
	put(t, s, some(10, c.now()))
	if got := ask(t, s, countPackets); got != 110 || faultOf(s) != "" {
		t.Errorf("%v packets, %q", got, faultOf(s))
	}
}

// settled waits until no file is being closed.
func (s *Store) settled(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience.Of(10 * time.Second)); ; time.Sleep(time.Millisecond) {
		s.writing.Lock()
		n := len(s.closing)
		s.writing.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a file is still being closed")
		}
	}
}

// A file that is damaged is moved away, and its time is a gap; the others are read. A catalog that is lost or
// damaged is made again.
func TestDamage(t *testing.T) {
	c := &clock{at: start}
	o := Options{Directory: t.TempDir(), Now: c.now, Quiet: 1}
	s, _ := opened(t, o)
	for hour := range 4 {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		put(t, s, some(100, c.now()))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"2026-11-21T12": func(b []byte) []byte { return b[:len(b)/3] },
		"2026-11-21T13": func(b []byte) []byte { copy(b[len(b)/2:], strings.Repeat("\xa5", 4096)); copy(b, "hello"); return b },
	} {
		path := filepath.Join(o.Directory, name+suffix)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, change(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, catalog := range []string{"", "{", `{"files":[null,{"name":"x"}]}`, "-"} {
		path := filepath.Join(o.Directory, catalogName)
		if catalog == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else if catalog != "-" {
			if err := os.WriteFile(path, []byte(catalog), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, said := opened(t, o)
		if got := ask(t, s, countPackets); got != 200 {
			t.Errorf("catalog %q: %v packets\n%s", catalog, got, said)
		}
		put(t, s, []record.Record{})
		if catalog == "" {
			var gaps int
			count := func(r *Reading) error { gaps = len(r.Gaps); return nil }
			if err := s.Read(t.Context(), start.Add(-time.Hour), start.Add(time.Hour), count); err != nil || gaps == 0 {
				t.Errorf("%d gaps, %v", gaps, err)
			}
			if _, err := os.Stat(filepath.Join(o.Directory, asideName, "2026-11-21T12"+suffix)); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Only one process has a store open.
func TestLocked(t *testing.T) {
	o := Options{Directory: t.TempDir()}
	opened(t, o)
	if _, err := New(t.Context(), o); !errors.Is(err, ErrInUse) {
		t.Errorf("%v", err)
	}
}

// Files of an earlier version, which lack columns and tables, are read, and files of a later one are left alone.
func TestVersions(t *testing.T) {
	c := &clock{at: start}
	o := Options{Directory: t.TempDir(), Now: c.now, Quiet: 1}
	s, _ := opened(t, o)
	put(t, s, some(100, start))
	fewer := "CREATE TABLE " + s.file.alias + ".fewer AS SELECT * EXCLUDE (queue) FROM " + s.file.alias + ".packets"
	if _, err := s.db.Exec(fewer); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"DROP TABLE F.packets", "ALTER TABLE F.fewer RENAME TO packets", "DROP TABLE F.warning",
		"UPDATE F.about SET version = 0.4::INTEGER"} {
		if _, err := s.db.Exec(strings.ReplaceAll(change, "F.", s.file.alias+".")); err != nil {
			t.Fatal(err)
		}
	}
	f := File{Alias: s.file.alias}
	var err error
	if f.columns, err = columnsThere(t.Context(), s.file.conn, f.Alias); err != nil {
		t.Fatal(err)
	}
	var rows, queues, warnings int
	if err := s.db.QueryRow("SELECT count(*), count(queue) FROM "+f.From(tablePackets)).Scan(&rows, &queues); err != nil || rows != 100 ||
		queues != 0 {
		t.Errorf("%d rows, %d queues, %v", rows, queues, err)
	}
	if err := s.db.QueryRow("SELECT count(code) FROM " + f.From("warning")).Scan(&warnings); err != nil {
		t.Error(err)
	}
	if _, err := s.db.Exec("UPDATE " + s.file.alias + ".about SET version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, said := opened(t, o)
	if !strings.Contains(said.String(), "of version 99, and this program knows up to 1; use a newer one") {
		t.Error(said)
	}
	put(t, s, some(10, start))
	if got := ask(t, s, countPackets); got != 10 || len(s.Files()) != 2 {
		t.Errorf("%v packets, %+v", got, s.Files())
	}
}

// After an error that ends the database, it is opened again with what was written, while questions are asked.
func TestReopened(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir()})
	put(t, s, some(500, start))
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
			}
			if got := ask(t, s, countPackets); got < 500 {
				t.Errorf("%v packets", got)
			}
		}
	}()
	for i := range 3 {
		if err := s.reopen(t.Context()); err != nil {
			t.Error(err)
		}
		put(t, s, some(500, start.Add(time.Duration(i+1)*time.Second)))
	}
	close(done)
	<-ended
	if got := ask(t, s, countPackets); got != 2000 {
		t.Errorf("%v packets", got)
	}
}

// faultOf is why nothing is written, as people see it.
func faultOf(s *Store) string {
	fault, cure := s.Fault()
	return problem.New(fault, cure).Error()
}
