// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Whatever times there are, spans have all of them, are in order and apart, and are not too many; what is far away does
// not become one with the hours of the file.
func TestSpans(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		var all spans
		var times []time.Time
		for range random.IntN(200) {
			var other spans
			for range 1 + random.IntN(5) {
				at := start.Add(time.Duration(random.Int64N(int64(time.Hour))))
				if random.IntN(2) == 0 { // forged
					at = start.AddDate(0, 0, 2+random.IntN(3650)*(1-2*random.IntN(2)))
				}
				times, other = append(times, at), other.add(spanOf(at, at)).bounded(start)
			}
			all = all.with(other, start)
		}
		for _, at := range times {
			found := 0
			for _, s := range all {
				if s.overlaps(at, at.Add(1)) {
					found++
				}
			}
			if found != 1 {
				t.Fatalf("round %d: %v is in %d of %v", round, at, found, all)
			}
		}
		for i, s := range all {
			if s.Last.Before(s.First.Time) || i > 0 && s.First.Sub(all[i-1].Last.Time) <= apart {
				t.Fatalf("round %d: %v", round, all)
			}
			if s.overlaps(start, start.Add(time.Hour)) && s.overlaps(start.Add(15*24*time.Hour), start.AddDate(1, 0, 0)) && len(all) == mostSpans {
				t.Fatalf("round %d: the file's hour goes on for days: %v", round, all)
			}
		}
		if len(all) > mostSpans {
			t.Fatalf("round %d: %d spans", round, len(all))
		}
	}
}

// dated is a packet of a clock that is wrong.
func dated(at time.Time) record.Record {
	list := some(1, at)
	if p, ok := list[0].(*record.Path); ok {
		p.Time = instant.Of(at)
	}
	return list[0]
}

// Records of clocks that are years ahead or behind do not make questions about the last hour read all files, and are found
// by questions about their time; also after a start without a catalog, and with one that has no such times.
func TestClocksOfExportersFarOff(t *testing.T) {
	t.Parallel()
	c := &clock{at: start}
	// Ages are judged by the collector's clock, whatever the times of records are
	o := Options{Directory: t.TempDir(), Age: 24 * time.Hour, Now: c.now, Quiet: 1, Unpacked: true, byHand: true}
	s, _ := opened(t, o)
	const hours = 6
	ahead, behind := start.AddDate(10, 0, 0), start.AddDate(-20, 0, 0)
	for hour := range hours {
		c.set(start.Add(time.Duration(hour) * time.Hour))
		s.Tend(t.Context())
		s.settled(t)
		off := time.Duration(hour) * time.Minute
		put(t, s, append(some(100, c.now()), dated(ahead.Add(off)), dated(behind.Add(off))))
	}
	expect := func(when string, lastHour int) {
		t.Helper()
		for _, one := range []struct {
			what           string
			at             time.Time
			long           time.Duration
			files, packets int
		}{
			{"the last hour", start.Add((hours - 1) * time.Hour), time.Hour, lastHour, 100},
			{"ahead", ahead, time.Hour, hours, hours},
			{"behind", behind, time.Hour, hours, hours},
			{"everything", behind, 40 * 366 * 24 * time.Hour, hours, 102 * hours},
		} {
			files, packets := 0, 0
			err := s.Read(t.Context(), one.at, one.at.Add(one.long), func(r *Reading) error {
				if files = len(r.Files); files == 0 {
					return nil
				}
				query := "SELECT count(*) FROM (" + Union(r.Files, "SELECT time FROM FILE(packets)") + ") WHERE time >= $1 AND time < $2"
				return r.DB.QueryRow(query, one.at, one.at.Add(one.long)).Scan(&packets)
			})
			if err != nil || files != one.files || packets != one.packets {
				t.Errorf("%s, %s: %d files, %d packets, %v; want %d, %d", when, one.what, files, packets, err, one.files, one.packets)
			}
		}
	}
	expect("as written", 1)
	reopen := func(change func(text string) string) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(o.Directory, catalogName)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ = opened(t, o)
	}
	reopen(func(text string) string { return text })
	expect("opened again", 1)
	reopen(func(string) string { return "" })
	expect("without a catalog", 1)
	reopen(func(text string) string { return asEarlier(t, text) })
	expect("with the catalog of an earlier program", hours)
}

// asEarlier is a catalog as an earlier program leaves it, whose first and last times are those of all records.
func asEarlier(t *testing.T, text string) string {
	t.Helper()
	var earlier struct {
		Version int              `json:"version"`
		Files   []map[string]any `json:"files"`
	}
	if err := json.Unmarshal([]byte(text), &earlier); err != nil {
		t.Fatal(err)
	}
	for _, f := range earlier.Files {
		if first, _ := f["first"].(string); !strings.HasPrefix(first, "2006-") || f["times"] == nil {
			t.Errorf("%v", f)
		}
		delete(f, "times")
	}
	all, err := json.Marshal(earlier)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}
