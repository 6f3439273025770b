// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// mostAttached is how many files stay open for reading.
const mostAttached = 256

// attached are the closed files that the database has open.
type attached struct {
	mu    sync.Mutex
	files map[string]*reading // by name
	uses  uint64
}

// reading is one of them.
type reading struct {
	alias   string
	columns map[string][]string // of an earlier version, by table
	packed  bool                // see tablePacked
	flows   Flows
	users   int
	used    uint64 // the later, the greater
	gone    bool   // the file was removed or replaced, and is detached after its last use
}

// File is a file that a query reads.
type File struct {
	Alias string
	Entry Entry

	columns map[string][]string // of a file of an earlier version, by table
	packed  bool                // see tablePacked
	flows   Flows
	reading *reading // of a closed file
	scope   *Scope   // nil: everything
	packets string   // the condition of [Reading.Of]; "": none
}

// Gap is a time of which the store has lost, or cannot read, what it had.
type Gap struct {
	From, Until time.Time
	Reason      string
	Left        bool // files left in their time
}

// Reading is a look at the files of a time. A query in it sees what was committed when it began.
type Reading struct {
	DB    *sql.DB
	Files []File // the oldest first
	Gaps  []Gap
}

// Of is the reading with rollups of the packets p for which a condition in SQL is true: [File.Rows] makes them anew,
// of all packets of the time. The condition may have FILE(table), and parameters of the query.
func (r *Reading) Of(condition string) *Reading {
	of := *r
	of.Files = slices.Clone(r.Files)
	for i := range of.Files {
		of.Files[i].packets = condition
	}
	return &of
}

// Read calls a function with the files that have something of a time, from the first time on until before
// the second one. In a context with a scope, the files have only what is in it. The function has the priority of
// questions; what holds locks that writing needs has not.
func (s *Store) Read(ctx context.Context, from, until time.Time, do func(*Reading) error) error {
	s.instance.RLock()
	defer s.instance.RUnlock()
	if s.db == nil {
		return fmt.Errorf("the store is closed")
	}
	r := &Reading{DB: s.db}
	closed, opened := s.selected(r, from, until)
	r.Gaps = slices.Concat(r.Gaps, s.left(from, until), s.missed(from, until))
	for _, f := range opened {
		if err := f.beginReading(ctx); err != nil {
			return err
		}
		defer f.using.RUnlock()
		if f.gone {
			closed = append(closed, f.entry.Name)
			continue
		}
		r.Files = append(r.Files, File{Alias: f.alias, Entry: s.entry(f.entry.Name)})
	}
	for _, name := range closed {
		e := s.entry(name)
		f, err := s.attach(ctx, e)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && e.Name == "": // it was removed meanwhile
		case err != nil:
			s.lost(name, err)
			for _, lost := range e.times() {
				if lost.overlaps(from, until) {
					r.Gaps = append(r.Gaps, Gap{From: lost.First.Time, Until: lost.Last.Time, Reason: firstLine(err)})
				}
			}
		default:
			defer s.letGo(f.reading)
			r.Files = append(r.Files, f)
		}
	}
	slices.SortFunc(r.Files, func(a, b File) int { return a.Entry.Opened.Compare(b.Entry.Opened) })
	for i := range r.Files {
		r.Files[i].scope = ScopeOf(ctx)
	}
	return s.helped(niceQuestion, func() error { return do(r) })
}

// beginReading holds the file open until using is released, once it is not being closed, which may take long.
func (f *open) beginReading(ctx context.Context) error {
	for !f.using.TryRLock() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(closingPoll):
		}
	}
	return nil
}

// closingPoll is how often a question looks whether a file is closed.
const closingPoll = 5 * time.Millisecond

// selected are the files of a time: the names of those that are closed, and those that are open.
func (s *Store) selected(r *Reading, from, until time.Time) (closed []string, opened []*open) {
	now := s.published.Load()
	handles := now.handles
	for i := range now.files {
		e := &now.files[i]
		switch {
		case !e.overlaps(from, until):
		case e.State == Closed:
			closed = append(closed, e.Name)
		case handles[e.Name] != nil:
			opened = append(opened, handles[e.Name])
		default:
			r.Gaps = append(r.Gaps, Gap{From: e.Opened, Until: e.Closed, Reason: cmp.Or(e.Reason, "it is not open")})
		}
	}
	return closed, opened
}

// handles are the files that are open to be written, or are being closed.
func (s *Store) handles() map[string]*open {
	all := map[string]*open{}
	for _, f := range s.closing {
		all[f.entry.Name] = f
	}
	if s.file != nil {
		all[s.file.entry.Name] = s.file
	}
	return all
}

// entry is a copy of a file's entry; without a name: it is not in the catalog.
func (s *Store) entry(name string) Entry {
	for _, e := range s.published.Load().files {
		if e.Name == name {
			return e
		}
	}
	return Entry{}
}

// published is what questions see of the catalog and of what is written: they do not wait for a transaction.
type published struct {
	files   []Entry
	handles map[string]*open
	fault   string
	cure    string
	missing []missing
	left    time.Time // see catalog.Left
}

// publish shows the present state. It is called after each change, under the lock of writing.
func (s *Store) publish() {
	p := &published{
		handles: s.handles(), fault: s.fault, cure: s.cure, missing: slices.Clone(s.catalog.Missing), left: s.catalog.Left.Time,
	}
	for _, e := range s.catalog.Files {
		p.files = append(p.files, *e)
	}
	s.published.Store(p)
}

// attach opens a closed file for reading, unless it is open. It stays so until letGo.
func (s *Store) attach(ctx context.Context, e Entry) (File, error) {
	if e.Name == "" {
		return File{}, errors.New("the file was removed")
	}
	a := &s.attached
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uses++
	r := a.files[e.Name]
	if r == nil {
		s.makeRoom()
		r = &reading{alias: s.nextAlias()}
		if err := s.attachAs(ctx, e.Name, r); err != nil {
			return File{}, err
		}
		a.files[e.Name] = r
	}
	r.users, r.used = r.users+1, a.uses
	return File{Alias: r.alias, Entry: e, columns: r.columns, packed: r.packed, flows: r.flows, reading: r}, nil
}

func (s *Store) attachAs(ctx context.Context, name string, r *reading) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "ATTACH "+literal(s.path(name))+" AS "+r.alias+" (READ_ONLY)"); err != nil {
		return err
	}
	version, err := versionOf(ctx, conn, r.alias)
	switch {
	case err == nil && version == 0:
		err = errors.New("it has no tables of this program")
	case err == nil && version > Version:
		err = problem.New(fmt.Sprintf("its tables are of version %d, and this program knows up to %d", version, Version), "use a newer one")
	case err == nil && version < Version:
		r.columns, err = columnsThere(ctx, conn, r.alias)
	case err == nil:
		if r.packed, err = hasTable(ctx, conn, r.alias, tablePacked); err == nil && r.packed {
			r.flows, err = flowsOf(ctx, conn, r.alias)
		}
	}
	if err != nil {
		_, _ = conn.ExecContext(context.Background(), "DETACH "+r.alias)
	}
	return err
}

// columnsThere are the columns that a file of an earlier version has, by table.
func columnsThere(ctx context.Context, conn *sql.Conn, alias string) (map[string][]string, error) {
	there := map[string][]string{}
	err := each(
		ctx,
		conn,
		"SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = "+literal(alias),
		func(scan func(...any) error) error {
			var table, column string
			err := scan(&table, &column)
			there[table] = append(there[table], column)
			return err
		},
	)
	return there, err
}

// makeRoom detaches the file that nobody has used for the longest time, if many are attached.
func (s *Store) makeRoom() {
	a := &s.attached
	if len(a.files) < mostAttached {
		return
	}
	oldest := ""
	for name, r := range a.files {
		if r.users == 0 && (oldest == "" || r.used < a.files[oldest].used) {
			oldest = name
		}
	}
	if oldest != "" {
		s.drop(oldest)
	}
}

func (s *Store) drop(name string) {
	_, _ = s.db.Exec("DETACH " + s.attached.files[name].alias)
	delete(s.attached.files, name)
}

// letGo ends one use of a file.
func (s *Store) letGo(r *reading) {
	a := &s.attached
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.users--; r.users == 0 && r.gone {
		_, _ = s.db.Exec("DETACH " + r.alias)
	}
}

// detach lets go of a file that was removed or replaced. Who reads it goes on; who comes now reads the one that has
// its name. It returns the file that questions still read, or nil if no question reads it.
func (s *Store) detach(name string) *reading {
	a := &s.attached
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.files[name]
	switch {
	case r == nil:
	case r.users == 0:
		s.drop(name)
	default:
		r.gone = true
		delete(a.files, name)
		return r
	}
	return nil
}

// isRead reports whether somebody reads a file that was detached.
func (s *Store) isRead(r *reading) bool {
	s.attached.mu.Lock()
	defer s.attached.mu.Unlock()
	return r != nil && r.users > 0
}

// lost notes that a closed file cannot be read.
func (s *Store) lost(name string, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.publish()
	if e := s.catalog.find(name); e != nil {
		if _, gone := os.Stat(s.path(name)); errors.Is(gone, os.ErrNotExist) {
			e.State, e.Reason = SetAside, "the file was removed by somebody else"
			return
		}
		s.unreadable(e, err)
	}
}

// From is a table of the file in a query, with all its columns of today: those that an earlier version
// lacks are NULL. It has what is in the scope of the reading.
func (f *File) From(name string) string {
	if f.scope == nil {
		return f.whole(name)
	}
	return f.scope.of(f, name)
}

// whole is the table with all its rows.
func (f *File) whole(name string) string {
	table := f.Alias + "." + quoted(name)
	if f.columns == nil {
		return table
	}
	there := f.columns[name]
	var list []string
	for _, t := range tables() {
		if t.name != name {
			continue
		}
		for _, c := range t.columns {
			if slices.Contains(there, c.name) {
				list = append(list, quoted(c.name))
			} else {
				list = append(list, "NULL::"+c.kind+" AS "+quoted(c.name))
			}
		}
	}
	if there == nil {
		return "(SELECT " + strings.Join(list, ", ") + " WHERE false)"
	}
	return "(SELECT " + strings.Join(list, ", ") + " FROM " + table + ")"
}

// Stored says how a file has its rows of packets, for queries that are faster with these than with the table packets,
// which a packed file makes of them. They are p in a query.
type Stored struct {
	Rows   string // the table, for a FROM clause; it may lack the flow id
	Keyed  bool   // the flow id is in the row of the key, which is k in a query
	FlowID string
	Since  string // the list of times since the previous node
	Flows         // its rollups by flow
}

// Stored is how the file has its packets.
func (f *File) Stored() Stored {
	if !f.packed || f.scope != nil {
		return Stored{f.From(tablePackets), false, "p.flow_id", "p.since_ns", f.flows}
	}
	return Stored{f.Alias + "." + tablePacked, true, "k.flow_id", restored, f.flows}
}

// Union is the same query of several files, with FILE(table) for a table of the file.
func Union(files []File, query string) string {
	var parts []string
	for i := range files {
		parts = append(parts, files[i].in(query))
	}
	return strings.Join(parts, "\nUNION ALL\n")
}

// in is a query of the file.
func (f *File) in(query string) string {
	return tableOf.ReplaceAllStringFunc(query, func(m string) string { return f.From(m[len("FILE(") : len(m)-1]) })
}

var tableOf = regexp.MustCompile(`FILE\([a-z0-9_]+\)`)

// Files are copies of the entries of all files, the oldest first.
func (s *Store) Files() []Entry {
	list := slices.Clone(s.published.Load().files)
	for i := range list {
		if list[i].State == Open {
			s.updateSize(&list[i])
		}
	}
	return list
}
