// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

const memory = 256 << 20

// filled is the directory of a closed store of four busy hours of one day, and an hour of the next.
func filled(t *testing.T) string {
	t.Helper()
	c := &clock{at: start}
	o := Options{Directory: t.TempDir(), Now: c.now, Quiet: 1}
	s, _ := opened(t, o)
	for _, hour := range []int{0, 1, 2, 3, 13} {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		put(t, s, append(some(400, c.now()), &record.Flow{Node: "a", Packets: 7}))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return o.Directory
}

var sums = []string{
	countPackets, "SELECT count(*) AS n FROM FILE(flow)", "SELECT packets AS n FROM FILE(path_1m)", "SELECT packets AS n FROM FILE(segment_1h)",
	"SELECT count(*) AS n FROM FILE(packets) p JOIN FILE(paths) d ON p.path = d.number JOIN FILE(keys) k ON p.key = k.number", "SELECT (hash(p.time, k.key, d.path) % 1000003)::DOUBLE AS n FROM FILE(packets) p JOIN FILE(paths) d ON p.path = d.number JOIN FILE(keys) k ON p.key = k.number",
}

func values(t *testing.T, directory string) (list []float64) {
	t.Helper()
	s, _ := opened(t, Options{Directory: directory, Now: (&clock{at: start.Add(13 * time.Hour)}).now, Quiet: 1})
	for _, query := range sums {
		list = append(list, ask(t, s, query))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return list
}

// The files of a day become one that has the same, and the numbers of its transactions go on.
func TestCompact(t *testing.T) {
	directory := filled(t)
	before := values(t, directory)
	done, err := Compact(t.Context(), directory, memory, start.Add(30*time.Hour))
	if err != nil || len(done) != 1 || len(done[0].From) != 4 || done[0].After >= done[0].Before {
		t.Fatalf("%+v, %v", done, err)
	}
	if after := values(t, directory); !slices.Equal(before, after) {
		t.Errorf("%v, before %v", after, before)
	}
	files, err := filepath.Glob(filepath.Join(directory, "*"+suffix))
	if err != nil || len(files) != 2 {
		t.Errorf("%v", files)
	}
	checked, written, err := Check(t.Context(), directory, memory)
	if err != nil || len(written) != 0 || len(checked) != 2 || checked[0].Fault != nil || checked[0].Packets != 1600 ||
		checked[0].Records != 4 {
		t.Errorf("%+v, %v", checked, err)
	}
	if done, err = Compact(t.Context(), directory, memory, start.Add(30*time.Hour)); err != nil || len(done) != 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// A compaction that was killed, at any of its steps, leaves each packet once.
func TestCompactKilled(t *testing.T) {
	directory := filled(t)
	before := values(t, directory)
	catalogFile := filepath.Join(directory, catalogName)
	kept := map[string][]byte{}
	list, err := filepath.Glob(filepath.Join(directory, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if kept[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	kept[catalogFile], err = os.ReadFile(catalogFile)
	if err != nil {
		t.Fatal(err)
	}
	restore := func(name string, text []byte) {
		t.Helper()
		_ = os.Remove(name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done, err := Compact(t.Context(), directory, memory, start.Add(30*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	// The new file is there, and so are those that it was made of: the catalog says what was meant.
	for name, text := range kept {
		if name != catalogFile {
			restore(name, text)
		}
	}
	c, err := readCatalog(directory)
	if err != nil {
		t.Fatal(err)
	}
	c.find(done[0].Into).Replaces = done[0].From
	if err := c.write(directory); err != nil {
		t.Fatal(err)
	}
	if after := values(t, directory); !slices.Equal(before, after) {
		t.Errorf("killed after the new file: %v, before %v", after, before)
	}
	// The catalog says what is meant, and the new file is not there.
	into := filepath.Join(directory, done[0].Into+suffix)
	if err := os.Rename(into, filepath.Join(directory, "compact.part")); err != nil {
		t.Fatal(err)
	}
	for name, text := range kept {
		restore(name, text)
	}
	c, err = readCatalog(directory)
	if err != nil {
		t.Fatal(err)
	}
	c.Files = append(c.Files, &Entry{Name: done[0].Into, State: Closed, Opened: start, Replaces: done[0].From})
	if err := c.write(directory); err != nil {
		t.Fatal(err)
	}
	if after := values(t, directory); !slices.Equal(before, after) {
		t.Errorf("killed before the new file: %v, before %v", after, before)
	}
}

// What is exported are the rows, in files that others read.
func TestExport(t *testing.T) {
	directory, to := filled(t), filepath.Join(t.TempDir(), "out")
	rows := map[string]int64{}
	written, err := Export(
		t.Context(),
		directory,
		to,
		start.Add(time.Hour),
		start.Add(3*time.Hour),
		[]string{"packets", "keys", "warning"},
		memory,
		func(file string, n int64) {
			rows[filepath.Base(file)] += n
			text, err := os.ReadFile(file)
			if err != nil || !strings.HasPrefix(string(text), "PAR1") {
				t.Errorf("%s: %v", file, err)
			}
		},
	)
	if err != nil || len(written) != 0 || rows["packets.parquet"] != 800 || rows["keys.parquet"] == 0 || len(rows) != 2 {
		t.Errorf("%v, %v", rows, err)
	}
}

// What was exported has the same rows with the same values, in all tables.
func TestExportedValues(t *testing.T) {
	directory, to := filled(t), filepath.Join(t.TempDir(), "out")
	var files []string
	_, err := Export(t.Context(), directory, to, time.Time{}, start.Add(100*time.Hour), nil, memory, func(file string, n int64) {
		files = append(files, file)
	})
	if err != nil || len(files) < 5*6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	db, err := database(memory, 0, filepath.Join(t.TempDir(), "scratch"), directory, to)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, file := range files {
		of, table := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".parquet")
		err := visitFile(t.Context(), db, filepath.Join(directory, of+suffix), fmt.Sprint("x", i),
			func(ctx context.Context, conn *sql.Conn, alias string) error {
				var sums [2]string
				for k, from := range []string{alias + "." + quoted(table), "read_parquet(" + literal(file) + ")"} {
					query := "SELECT count(*) || ' rows ' || coalesce(sum(hash(t)), 0)::VARCHAR FROM " + from + " t"
					if err := conn.QueryRowContext(ctx, query).Scan(&sums[k]); err != nil {
						return err
					}
				}
				if sums[0] != sums[1] || strings.HasPrefix(sums[0], "0 ") {
					t.Errorf("%s has %s, the store %s", file, sums[1], sums[0])
				}
				return nil
			})
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A damaged file is found, and the others are sound.
func TestCheck(t *testing.T) {
	directory := filled(t)
	path := filepath.Join(directory, "2026-11-21T13"+suffix)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 3 * 4096; i < len(text); i += 4096 {
		text[i] ^= 0x55
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	checked, written, err := Check(t.Context(), directory, memory)
	if err != nil || len(written) != 0 || len(checked) != 5 {
		t.Fatalf("%+v, %v", checked, err)
	}
	for _, c := range checked {
		if (c.Fault != nil) != (c.Name == "2026-11-21T13") {
			t.Errorf("%+v", c)
		}
	}
}

// While a collector runs, the file that it writes is left out, and named.
func TestBeingWritten(t *testing.T) {
	directory := t.TempDir()
	s, _ := opened(t, Options{Directory: directory, Now: (&clock{at: start}).now, Quiet: 1})
	put(t, s, some(10, start))
	list, written, err := Check(t.Context(), directory, memory)
	if err != nil || len(list) != 0 || !slices.Equal(written, []string{"2026-11-21T12"}) {
		t.Errorf("check: %+v, %q, %v", list, written, err)
	}
	written, err = Export(t.Context(), directory, filepath.Join(t.TempDir(), "out"), start, start.Add(time.Hour), nil, memory,
		func(file string, _ int64) { t.Errorf("%s is written", file) })
	if err != nil || len(written) != 1 {
		t.Errorf("export: %q, %v", written, err)
	}
}
