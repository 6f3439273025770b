// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/replacefile"
)

// State is what a file of the store is.
type State string

// The states.
const (
	Open       State = "open"       // it is written
	Closed     State = "closed"     // it is only read
	SetAside   State = "aside"      // it could not be read, and was moved away: what it had is missing
	Unreadable State = "unreadable" // it cannot be read by this program, or now
)

// Entry is a file in the catalog.
type Entry struct {
	Name           string
	State          State
	Version        int
	Opened, Closed time.Time // by the collector's clock
	First, Last    time.Time // the least and the greatest time of a record
	Packets        uint64
	Records        uint64
	Bytes          int64
	Packed         bool     // it was written anew, see tablePacked
	Reason         string   // why it cannot be read
	Replaces       []string // files that it was made of, and that are removed when it is complete
	Times          spans    // the times of records, if some are far from others
}

// stored is an entry in JSON.
type stored struct {
	Name    string       `json:"name"`
	State   State        `json:"state"`
	Version int          `json:"version"`
	Opened  instant.Time `json:"opened"`
	Closed  instant.Time `json:"closed,omitzero"`
	First   instant.Time `json:"first,omitzero"`
	Last    instant.Time `json:"last,omitzero"`
	Packets uint64       `json:"packets"`
	Records uint64       `json:"records"`
	Bytes   int64        `json:"bytes"`
	Packed  bool         `json:"packed,omitempty"`
	Reason  string       `json:"reason,omitempty"`

	Times spans `json:"times,omitempty"` // besides first and last, which earlier programs read

	Replaces []string `json:"replaces,omitempty"`
}

// MarshalJSON writes an entry.
func (e *Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{
		e.Name, e.State, e.Version, instant.Of(e.Opened), instant.Of(e.Closed), instant.Of(e.First), instant.Of(e.Last), e.Packets, e.Records,
		e.Bytes, e.Packed, e.Reason, e.Times, e.Replaces,
	})
}

// UnmarshalJSON reads one.
func (e *Entry) UnmarshalJSON(text []byte) error {
	var s stored
	err := json.Unmarshal(text, &s)
	*e = Entry{
		s.Name,
		s.State,
		s.Version,
		s.Opened.Time,
		s.Closed.Time,
		s.First.Time,
		s.Last.Time,
		s.Packets,
		s.Records,
		s.Bytes,
		s.Packed,
		s.Reason,
		s.Replaces,
		s.Times,
	}
	return err
}

// covers adds times of records.
func (e *Entry) covers(times spans) {
	all := e.times().with(times, e.Opened)
	if e.Times = nil; len(all) > 1 {
		e.Times = all
	}
	if len(all) > 0 {
		e.First, e.Last = all[0].First.UTC(), all[len(all)-1].Last.UTC()
	}
}

// times are those of records.
func (e *Entry) times() spans {
	if len(e.Times) == 0 && !e.First.IsZero() {
		return spans{{instant.Of(e.First), instant.Of(e.Last)}}
	}
	return e.Times
}

// overlaps reports whether the file may have something of a time. A file that cannot be read counts by
// when it was written.
func (e *Entry) overlaps(from, until time.Time) bool {
	if e.State == SetAside || e.State == Unreadable {
		end := e.Closed
		if end.IsZero() {
			end = e.Opened.Add(time.Hour)
		}
		return e.Opened.Before(until) && end.After(from)
	}
	return slices.ContainsFunc(e.times(), func(s span) bool { return s.overlaps(from, until) })
}

// LastBefore is the greatest time before another one that a record may have; none: all are later.
func (e *Entry) LastBefore(until time.Time) (last time.Time) {
	for _, s := range e.times() {
		if s.First.Before(until) {
			last = s.Last.Time
		}
	}
	return last
}

// catalog lists the files of a store. It is made again from the files when it is lost.
type catalog struct {
	Version int          `json:"version"`
	Files   []*Entry     `json:"files"`
	Missing []missing    `json:"missing,omitempty"` // the oldest first
	Judged  instant.Time `json:"judged,omitzero"`   // the time that was believed when ages were last judged
	Left    instant.Time `json:"left,omitzero"`     // until when the files were written that left; none: none did
}

const (
	catalogName = "catalog.json"
	asideName   = "aside"
	suffix      = ".duckdb"
)

// readCatalog reads the catalog of a directory, and compares it with the files that are there. What it
// does not know has no state.
func readCatalog(directory string) (*catalog, error) {
	c := &catalog{Version: 1}
	text, err := os.ReadFile(filepath.Join(directory, catalogName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err == nil && json.Unmarshal(text, c) != nil {
		c = &catalog{Version: 1} // a catalog that cannot be read is as good as none
	}
	list, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, f := range list {
		name, ok := strings.CutSuffix(f.Name(), suffix)
		if !ok || !f.Type().IsRegular() {
			continue
		}
		there[name] = true
		if c.find(name) == nil {
			c.Files = append(c.Files, &Entry{Name: name, Opened: timeOf(name)})
		}
	}
	gone := c.replaced()
	var left []*Entry // a collector that was killed may have removed them
	c.Files = slices.DeleteFunc(c.Files, func(e *Entry) bool {
		if e == nil || e.State == SetAside || there[e.Name] {
			return e == nil
		}
		if !gone[e.Name] && e.State == Closed {
			left = append(left, e)
		}
		return true
	})
	c.sort()
	for _, e := range left {
		c.leave(e)
	}
	return c, nil
}

func (c *catalog) sort() {
	slices.SortFunc(c.Files, func(a, b *Entry) int { return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.Name, b.Name)) })
}

// begun is when a file was begun, also if the clock was far ahead then or before: later files are kept in their order.
func (e *Entry) begun() time.Time {
	if hour := timeOf(e.Name); e.Opened.Before(hour) || e.Opened.Sub(hour) > time.Hour {
		return hour
	}
	return e.Opened
}

// first is when the oldest file was begun; none: there is no file.
func first(files []Entry) (at time.Time) {
	for i := range files {
		if begun := files[i].begun(); !begun.IsZero() && (at.IsZero() || begun.Before(at)) {
			at = begun
		}
	}
	return at
}

// leave notes that a file has left, if it was older than the others.
func (c *catalog) leave(e *Entry) {
	for _, other := range c.Files {
		if other.Opened.Before(e.Opened) {
			return
		}
	}
	if end := e.over(); end.After(c.Left.Time) {
		c.Left = instant.Of(end)
	}
}

func (c *catalog) find(name string) *Entry {
	for _, e := range c.Files {
		if e != nil && e.Name == name {
			return e
		}
	}
	return nil
}

// write replaces the catalog's file.
func (c *catalog) write(directory string) error {
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	return replacefile.Write(filepath.Join(directory, catalogName), text, 0o640)
}

const nameLayout = "2006-01-02T15"

// newName is the name of a file that is begun now: its hour, in UTC.
func (c *catalog) newName(directory string, now time.Time) string {
	name := now.UTC().Format(nameLayout)
	for n := 1; ; n++ {
		full := name
		if n > 1 {
			full = fmt.Sprintf("%s-%d", name, n)
		}
		_, err := os.Lstat(filepath.Join(directory, full+suffix))
		if c.find(full) == nil && errors.Is(err, os.ErrNotExist) {
			return full
		}
	}
}

// timeOf is the hour in a file's name.
func timeOf(name string) time.Time {
	t, _ := time.Parse(nameLayout, name[:min(len(name), len(nameLayout))])
	return t
}
