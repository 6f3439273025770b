// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// closedStore opens the store of filled, whose files are all closed, with the newest begun later.
func closedStore(t *testing.T, directory string) (*Store, *notes) {
	t.Helper()
	s, said := opened(t, Options{Directory: directory, Unpacked: true, Quiet: 1, Now: (&clock{at: start.Add(60 * time.Hour)}).now})
	s.Tend(t.Context())
	s.settled(t)
	return s, said
}

// numbers are the answers to sums.
func numbers(t *testing.T, s *Store) (list []float64) {
	t.Helper()
	for _, query := range sums {
		list = append(list, ask(t, s, query))
	}
	return list
}

// packedFiles are how many files are packed.
func packedFiles(s *Store) (n int) {
	for _, e := range s.Files() {
		if e.Packed {
			n++
		}
	}
	return n
}

// Packed files have the same rows, are smaller, and can be checked, exported and made one.
func TestPack(t *testing.T) {
	directory := filled(t)
	s, said := closedStore(t, directory)
	before, octets := numbers(t, s), s.bytes()
	if err := s.Pack(t.Context()); err != nil || packedFiles(s) != 5 {
		t.Fatalf("%v, %d files", err, packedFiles(s))
	}
	if after := numbers(t, s); !slices.Equal(before, after) {
		t.Errorf("%v, before %v\n%s", after, before, said)
	}
	p := s.Packing()
	if p.Done != 5 || p.Failed != 0 || p.Fault != "" || p.Saved != octets-s.bytes() || p.Saved < octets/2 {
		t.Errorf("%+v, %d bytes, before %d", p, s.bytes(), octets)
	}
	if err := s.Pack(t.Context()); err != nil || s.Packing().Done != 5 {
		t.Errorf("again: %v, %+v", err, s.Packing())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checked, _, err := Check(t.Context(), directory, memory)
	if err != nil || slices.ContainsFunc(checked, func(c Checked) bool { return c.Fault != nil }) || checked[0].Packets != 400 {
		t.Errorf("%+v, %v", checked, err)
	}
	rows := map[string]int64{}
	_, err = Export(t.Context(), directory, t.TempDir(), start, start.Add(30*time.Hour), []string{"packets", "keys"}, memory,
		func(file string, n int64) { rows[filepath.Base(file)] += n })
	if err != nil || rows["packets.parquet"] != 2000 || rows["keys.parquet"] == 0 {
		t.Errorf("%v, %v", rows, err)
	}
	done, err := Compact(t.Context(), directory, memory, start.Add(80*time.Hour))
	if err != nil || len(done) != 1 || len(done[0].From) != 4 {
		t.Errorf("%+v, %v", done, err)
	}
	// The catalog is lost: files are known by what they have.
	if err := os.Remove(filepath.Join(directory, catalogName)); err != nil {
		t.Fatal(err)
	}
	s, said = closedStore(t, directory)
	if after := numbers(t, s); !slices.Equal(before, after) || packedFiles(s) != 2 {
		t.Errorf("%v, before %v; %+v\n%s", after, before, s.Files(), said)
	}
}

// odd are packets whose times do not follow from the delay, or are missing, and packets of one key with several flow
// ids, paths, or none.
func odd(n int) (list []record.Record) {
	p := storetest.NewPackets(1, 20, 30, 50, start, time.Millisecond)
	for i := range n {
		r := p.Next()
		switch i % 8 {
		case 0:
			r.FlowID += 1000
		case 1:
			r.Delay = nil
		case 2:
			if r.Delay != nil {
				*r.Delay++
			}
		case 3:
			r.Nodes[1].SincePrevious = nil
		case 4:
			r.Nodes = r.Nodes[:2]
		case 5:
			r.Nodes = r.Nodes[:1]
		case 6:
			nodes := []record.NodeData{{NodeID: record.NewField(ioam.NodeID(1), true)}, {}}
			list = append(list, &record.Trace{Time: instant.Of(p.At), Packet: r.Packet, Nodes: nodes})
			continue
		}
		if i%16 == 0 {
			r.Time = instant.Time{} // no time that the database has
		}
		list = append(list, r)
	}
	return list
}

// everyPacket are all values of all packets, sorted.
func everyPacket(t *testing.T, s *Store, stored bool) (list []string) {
	t.Helper()
	err := s.Read(t.Context(), time.Unix(0, 0), start.Add(1000*time.Hour), func(r *Reading) error {
		for i := range r.Files {
			f := &r.Files[i]
			of := Stored{f.From(tablePackets), false, "p.flow_id", "p.since_ns", Flows{}}
			if stored {
				of = f.Stored()
			}
			rows, err := r.DB.Query("SELECT (p.time, p.source, p.namespace, k.key, " + of.FlowID + ", p.sequence, d.path, p.reason, " +
				"p.verdict, p.length, p.hop_limit, p.delay_ns, p.timed, p.held_ns, " + of.Since + ", p.queue)::VARCHAR FROM " + of.Rows +
				" p JOIN " + f.From(tableKeys) + " k ON p.key = k.number JOIN " + f.From(tablePaths) + " d ON p.path = d.number")
			if err != nil {
				return err
			}
			for rows.Next() {
				var text string
				if err := rows.Scan(&text); err != nil {
					return err
				}
				list = append(list, text)
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// Each value of each packet stays as it is, in files with few flows, whose flow ids and paths are in the table of keys,
// and with many; rows of rollups of the same minute become one.
func TestPackedValues(t *testing.T) {
	for name, some := range map[string][]record.Record{"few flows": odd(4000), "many flows": odd(100)} {
		c := &clock{at: start}
		s, said := opened(t, Options{Directory: t.TempDir(), Unpacked: true, Quiet: 1, Now: c.now})
		for i := 0; i < len(some); i += 50 { // all of the same minutes
			put(t, s, some[i:min(i+50, len(some))])
			s.writing.Lock()
			err := s.file.rollUp(t.Context())
			s.writing.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
		c.set(start.Add(2 * time.Hour))
		s.Tend(t.Context())
		s.settled(t)
		var rollups []string
		for _, of := range []string{
			"packets AS n FROM FILE(path_1m)", "lost AS n FROM FILE(path_1m)", "bytes AS n FROM FILE(path_1m)",
			"delay_sum AS n FROM FILE(path_1m)",
			"list_sum(delay_n) AS n FROM FILE(path_1m)", "max(delay_max) AS n FROM FILE(path_1m)",
			"list_sum(list_transform(list_zip(delay_b, delay_n), x -> x[1] * x[2])) AS n FROM FILE(path_1m)",
			"max(held_max) AS n FROM FILE(segment_1m)", "held_sum AS n FROM FILE(segment_1m)",
			"list_sum(held_n) AS n FROM FILE(segment_1m)",
			"list_sum(link_n) + link_negative AS n FROM FILE(segment_1m)", "packets AS n FROM FILE(segment_1h)",
			"list_sum(list_transform(list_zip(held_b, held_n), x -> x[1] * x[2])) AS n FROM FILE(segment_1m)",
		} {
			rollups = append(rollups, "SELECT "+of)
		}
		answers := func() (list []float64) {
			for _, query := range rollups {
				list = append(list, ask(t, s, query))
			}
			return list
		}
		const twice = "SELECT count(*) - count(DISTINCT (minute, segment)) AS n FROM FILE(segment_1m)"
		before, sums, repeated := everyPacket(t, s, false), answers(), ask(t, s, twice)
		if err := s.Pack(t.Context()); err != nil || packedFiles(s) != 1 {
			t.Fatalf("%s: %v\n%s", name, err, said)
		}
		for _, stored := range []bool{false, true} {
			if after := everyPacket(t, s, stored); !slices.Equal(before, after) {
				t.Errorf("%s, stored %v: %d packets, before %d", name, stored, len(after), len(before))
			}
		}
		if after := answers(); !slices.Equal(sums, after) {
			t.Errorf("%s: %v, before %v", name, after, sums)
		}
		if left := ask(t, s, twice); left != 0 || repeated == 0 {
			t.Errorf("%s: %v rows of the same minute, before %v", name, left, repeated)
		}
		if got := ask(t, s, "SELECT count(*) AS n FROM FILE(packing) WHERE dictionary"); (got == 1) != (name == "few flows") {
			t.Errorf("%s: dictionary %v", name, got)
		}
	}
}

// Queries go on while files are packed: each reads one file or the other, and never both or none.
func TestPackedWhileRead(t *testing.T) {
	s, said := closedStore(t, filled(t))
	want := ask(t, s, countPackets)
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for ; !done.Load(); time.Sleep(50 * time.Millisecond) { // packing has the lowest priority
				if got := ask(t, s, countPackets); got != want {
					t.Errorf("%v packets, want %v", got, want)
				}
			}
		})
	}
	// One reader has all files before they are packed, and reads them when they are.
	err := s.Read(t.Context(), time.Unix(0, 0), start.Add(1000*time.Hour), func(r *Reading) error {
		if err := s.Pack(t.Context()); err != nil {
			return err
		}
		var got float64
		if err := r.DB.QueryRow("SELECT sum(n)::DOUBLE FROM (" + Union(r.Files, countPackets) + ")").Scan(&got); err != nil || got != want {
			t.Errorf("%v packets, want %v; %v", got, want, err)
		}
		return nil
	})
	done.Store(true)
	readers.Wait()
	if err != nil || packedFiles(s) != 5 {
		t.Errorf("%v\n%s", err, said)
	}
	var attached int
	err = s.db.QueryRow("SELECT count(*) FROM duckdb_databases() WHERE path LIKE '%2026-11-21T12%'").Scan(&attached)
	if err != nil || attached > 1 {
		t.Errorf("the file is attached %d times; %v", attached, err)
	}
}

// Without room on the disk, or when it is full, files stay as they are, with a warning; they are packed later.
func TestPackingFaults(t *testing.T) {
	directory := filled(t)
	free := uint64(1 << 30)
	c := &clock{at: start.Add(60 * time.Hour)}
	o := Options{Directory: directory, Unpacked: true, Quiet: 1, Now: c.now, Free: func() (uint64, error) { return free, nil }}
	s, said := opened(t, o)
	before := numbers(t, s)
	free = 412 << 20 // removing the older files would not be enough
	err := s.Pack(t.Context())
	if p := s.Packing(); err == nil || !strings.Contains(p.Fault, "make room") || p.Failed == 0 || packedFiles(s) != 0 || len(s.Files()) < 5 {
		t.Errorf("%v, %+v, %d files", err, p, len(s.Files()))
	}
	if n := strings.Count(said.String(), "files are not packed"); n == 0 {
		t.Error(said)
	}
	if after := numbers(t, s); !slices.Equal(before, after) {
		t.Errorf("%v, before %v", after, before)
	}
	failed := s.Packing().Failed
	if err := s.Pack(t.Context()); err != nil || s.Packing().Failed != failed { // not at once
		t.Errorf("%v, %+v", err, s.Packing())
	}
	// A file that leaves while it is packed does not come back.
	free = 1 << 30
	clear(s.packer.failed)
	name := s.Files()[0].Name
	part := s.path(name) + partSuffix
	if err := os.WriteFile(part, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.writing.Lock()
	s.remove(s.catalog.find(name), ofAge, "of a test")
	s.publish()
	s.writing.Unlock()
	if err := s.packed(name, part); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.path(name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is back: %v", name, err)
	}
	if err := s.Pack(t.Context()); err != nil || s.Packing().Fault != "" || packedFiles(s) == 0 {
		t.Errorf("%v, %+v", err, s.Packing())
	}
	if list, _ := filepath.Glob(filepath.Join(directory, "*"+partSuffix+"*")); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}

// A file whose rollups by flow need more memory than there is, or are wrong, is packed without them, and says so.
func TestPackWithoutFlows(t *testing.T) {
	sums := flowSums
	for _, fault := range []string{
		"SELECT error('more memory than there is')", strings.Replace(sums, "key < SUMMED AND", "", 1),
	} {
		s, said := closedStore(t, filled(t))
		before := numbers(t, s)
		flowSums = fault
		err := s.Pack(t.Context())
		flowSums = sums
		if p := s.Packing(); err != nil || packedFiles(s) != 5 || p.Done != 5 || p.Failed != 0 || p.Fault != "" {
			t.Fatalf("%v, %+v\n%s", err, p, said)
		}
		if after := numbers(t, s); !slices.Equal(before, after) {
			t.Errorf("%v, before %v\n%s", after, before, said)
		}
		if n := strings.Count(said.String(), "gets no rollups by flow"); n == 0 || n > 5 {
			t.Errorf("%d messages: %s", n, said)
		}
		err = s.Read(t.Context(), time.Unix(0, 0), start.Add(1000*time.Hour), func(r *Reading) error {
			for i := range r.Files {
				if r.Files[i].Stored().Flows != (Flows{}) {
					t.Errorf("%s has %+v", r.Files[i].Entry.Name, r.Files[i].Stored().Flows)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	directory := filled(t)
	flowSums = "SELECT error('more memory than there is')"
	done, err := Compact(t.Context(), directory, memory, start.Add(80*time.Hour))
	flowSums = sums
	if err != nil || len(done) == 0 || !strings.Contains(done[0].Warning, done[0].Into+".duckdb gets no rollups by flow") {
		t.Errorf("%+v, %v", done, err)
	}
	if !withoutFlows(fmt.Errorf("checkpoint: %w", &duckdb.Error{Type: duckdb.ErrorTypeOutOfMemory})) || withoutFlows(errPacked) {
		t.Error("what is tried again without rollups by flow")
	}
}

// packOnce packs what a directory has, and says when each file is begun.
func packOnce(directory string) error {
	o := Options{Directory: directory, Unpacked: true, Quiet: 1, Now: (&clock{at: start.Add(60 * time.Hour)}).now}
	s, err := New(context.Background(), o)
	if err != nil {
		return err
	}
	fmt.Println("begun")
	return errors.Join(s.Pack(context.Background()), s.Close())
}

// A process that is killed at any moment of packing leaves each file as it was or packed, and no row is missing or there
// twice.
func TestPackingKilled(t *testing.T) {
	directory := filled(t)
	s, _ := closedStore(t, directory)
	before := numbers(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kept := t.TempDir()
	if err := os.CopyFS(kept+"/unpacked", os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	rounds, between := 12, 0
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WAYMARK_STORE_TO_PACK="+directory)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewScanner(out).Scan()
		time.Sleep(time.Duration(50+round*170) * time.Millisecond) // somewhere in a file, a renaming or the catalog
		_ = cmd.Process.Kill()                                     // it may have ended
		_ = cmd.Wait()
		s, said := closedStore(t, directory)
		if after := numbers(t, s); !slices.Equal(before, after) {
			t.Fatalf("round %d: %v, before %v\n%s", round, after, before, said)
		}
		left, _ := filepath.Glob(filepath.Join(directory, "*"+partSuffix+"*"))
		n := packedFiles(s)
		if len(left) != 0 || len(s.Files()) < 5 {
			t.Errorf("round %d: left %v, files %+v", round, left, s.Files())
		}
		if n > 0 && n < 5 {
			between++
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n == 5 { // from the beginning
			directory = filepath.Join(kept, fmt.Sprint(round))
			if err := os.CopyFS(directory, os.DirFS(kept+"/unpacked")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("in %d of %d rounds, some files were packed", between, rounds)
}
