// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Compacted is what became of the files of a day.
type Compacted struct {
	Into          string
	From          []string
	Before, After int64 // bytes
	Rows          uint64
	Warning       string // a warning about the file; "": none
}

// compactPart is the name of the file that is made of others, before it is packed.
const compactPart = "compact.part"

// mostTogether is how many bytes files have that become one.
const mostTogether = 1 << 30

// Compact makes one file of the closed files of each day that is over, while they have less than 1 GB together, and packs
// the others. No collector may run. A file is complete before those that it was made of are removed: when it is killed,
// all packets are there, and once.
func Compact(ctx context.Context, directory string, memory int64, now time.Time) ([]Compacted, error) {
	lock, err := lockDirectory(directory)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	c, db, err := visit(directory, memory, filepath.Join(directory, packScratch))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := errors.Join(c.finish(directory), removeParts(directory)); err != nil {
		return nil, err
	}
	var done []Compacted
	for {
		group := c.together(now)
		if len(group) < 2 {
			return packRest(ctx, db, directory, c, done)
		}
		one, err := compactFiles(ctx, db, directory, c, group)
		if err != nil {
			return done, err
		}
		done = append(done, one)
	}
}

// packRest packs the closed files that became no part of another one.
func packRest(ctx context.Context, db *sql.DB, directory string, c *catalog, done []Compacted) ([]Compacted, error) {
	for _, e := range c.Files {
		if e.State != Closed || e.Packed {
			continue
		}
		path := filepath.Join(directory, e.Name+suffix)
		one := Compacted{Into: e.Name, From: []string{e.Name}, Before: e.Bytes, After: e.Bytes, Rows: e.Packets + e.Records}
		err := one.pack(ctx, db, path, path+partSuffix)
		if err == nil {
			err = errors.Join(os.Rename(path+partSuffix, path), syncDirectory(directory))
		}
		if err != nil && !errors.Is(err, errPacked) {
			return done, errors.Join(fmt.Errorf("pack %s: %w", e.Name+suffix, err), removeParts(directory))
		}
		if info, err := os.Stat(path); err == nil {
			e.Bytes, one.After = info.Size(), info.Size()
		}
		e.Packed, e.Version = true, Version
		if err := c.write(directory); err != nil {
			return done, err
		}
		done = append(done, one)
	}
	return done, removeParts(directory)
}

// pack writes the packed file of a file, without rollups by flow if it must.
func (c *Compacted) pack(ctx context.Context, db *sql.DB, from, into string) error {
	err := packFile(ctx, db, from, into, false)
	if ctx.Err() != nil || !withoutFlows(err) {
		return err
	}
	c.Warning = flowlessWarning(c.Into, err)
	return errors.Join(removeFiles(into, into+".wal"), packFile(ctx, db, from, into, true))
}

// removeFiles removes files that may be there.
func removeFiles(paths ...string) (err error) {
	for _, path := range paths {
		if fault := os.Remove(path); !errors.Is(fault, os.ErrNotExist) {
			err = errors.Join(err, fault)
		}
	}
	return err
}

// together are the first files that become one: of a day that is over, closed, and of this version.
func (c *catalog) together(now time.Time) (group []*Entry) {
	var octets int64
	for _, e := range c.Files {
		day := e.Opened.Truncate(24 * time.Hour)
		fits := e.State == Closed && e.Version == Version && day.Before(now.UTC().Truncate(24*time.Hour))
		if len(group) > 0 && (!fits || !day.Equal(group[0].Opened.Truncate(24*time.Hour)) || octets+e.Bytes > mostTogether) {
			if len(group) > 1 {
				return group
			}
			group, octets = nil, 0
		}
		if fits {
			group, octets = append(group, e), octets+e.Bytes
		}
	}
	return group
}

// compactFiles makes one file of several.
func compactFiles(ctx context.Context, db *sql.DB, directory string, c *catalog, group []*Entry) (Compacted, error) {
	into := *group[0]
	into.Name = c.newName(directory, group[0].Opened)
	done := Compacted{Into: into.Name}
	part := filepath.Join(directory, compactPart) // no file of the store until it is complete
	packed := filepath.Join(directory, into.Name+suffix+partSuffix)
	if err := removeFiles(part, part+".wal"); err != nil {
		return done, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return done, err
	}
	defer conn.Close()
	if err := merge(ctx, conn, directory, part, group, &done); err != nil {
		return done, err
	}
	if err := errors.Join(done.pack(ctx, db, part, packed), os.Remove(part)); err != nil {
		return done, errors.Join(err, removeParts(directory))
	}
	into.Packed = true
	into.Bytes, into.Packets, into.Records, into.First, into.Last, into.Times = 0, 0, 0, time.Time{}, time.Time{}, nil
	for _, e := range group {
		into.Packets, into.Records = into.Packets+e.Packets, into.Records+e.Records
		into.covers(e.times())
		into.Closed = e.Closed
		done.From, done.Before = append(done.From, e.Name), done.Before+e.Bytes
	}
	if info, err := os.Stat(packed); err == nil {
		into.Bytes = info.Size()
	}
	done.After = into.Bytes
	return done, replace(directory, c, packed, group, &into)
}

// replace puts a file in the place of those that it was made of. The catalog says first what is meant: a start after
// a kill does the rest, see finish.
func replace(directory string, c *catalog, part string, group []*Entry, into *Entry) error {
	for _, e := range group {
		into.Replaces = append(into.Replaces, e.Name)
	}
	c.Files = append(c.Files, into)
	c.sort()
	if err := c.write(directory); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(part, filepath.Join(directory, into.Name+suffix)), syncDirectory(directory)); err != nil {
		return err
	}
	return c.finish(directory)
}

// current are the files without those that others were made of, and without those that are not complete.
func (c *catalog) current(directory string) []*Entry {
	gone := c.replaced()
	return slices.DeleteFunc(slices.Clone(c.Files), func(e *Entry) bool { return gone[e.Name] })
}

// replaced are the names of files that others were made of.
func (c *catalog) replaced() map[string]bool {
	gone := map[string]bool{}
	for _, e := range c.Files {
		if e == nil {
			continue // of a catalog that is damaged
		}
		for _, name := range e.Replaces {
			gone[name] = true
		}
	}
	return gone
}

// finish removes the files that others were made of.
func (c *catalog) finish(directory string) error {
	gone := map[string]bool{}
	for _, e := range c.Files {
		for _, name := range e.Replaces {
			if err := os.Remove(filepath.Join(directory, name+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	c.Files = slices.DeleteFunc(c.Files, func(e *Entry) bool { return gone[e.Name] })
	for _, e := range c.Files {
		e.Replaces = nil
	}
	return c.write(directory)
}

// merge copies the rows of files into a new one. Their transactions are numbered anew, in their order, so that
// rollups stay those of the rows that they were made of.
func merge(ctx context.Context, conn *sql.Conn, directory, part string, group []*Entry, done *Compacted) error {
	statements := []string{"ATTACH " + literal(part) + " AS merged", "BEGIN"}
	for _, t := range tables() {
		statements = append(statements, t.create("merged"))
	}
	for i, e := range group {
		statements = append(
			[]string{"ATTACH " + literal(filepath.Join(directory, e.Name+suffix)) + fmt.Sprintf(" AS m%d (READ_ONLY)", i)},
			statements...)
	}
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return errors.Join(err, unmerge(conn, len(group)))
		}
	}
	err := copyAll(ctx, conn, len(group), done)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "CHECKPOINT merged")
	}
	return errors.Join(err, unmerge(conn, len(group)))
}

func unmerge(conn *sql.Conn, files int) error {
	_, _ = conn.ExecContext(context.Background(), "ROLLBACK") // of what has failed
	var errs []error
	for i := range files {
		_, err := conn.ExecContext(context.Background(), fmt.Sprintf("DETACH DATABASE IF EXISTS m%d", i))
		errs = append(errs, err)
	}
	_, err := conn.ExecContext(context.Background(), "DETACH DATABASE IF EXISTS merged")
	return errors.Join(append(errs, err)...)
}

func copyAll(ctx context.Context, conn *sql.Conn, files int, done *Compacted) error {
	var offset uint64
	for i := range files {
		alias := fmt.Sprintf("m%d", i)
		for id, name := range map[string]string{"key": tableKeys, "path": tablePaths, "segment": tableSegments} {
			if _, err := conn.ExecContext(ctx, copyOfNumbered(name, id, alias)); err != nil {
				return fmt.Errorf("copy %s: %w", name, err)
			}
		}
		var next uint64
		for _, t := range tables() {
			number := t.columns[0].name // batch or part, of what has one
			if number != "batch" && number != "part" {
				continue
			}
			var most uint64
			greatest := "SELECT coalesce(max(" + number + ") + 1, 0)::UBIGINT FROM " + alias + "." + quoted(t.name)
			if err := conn.QueryRowContext(ctx, greatest).Scan(&most); err != nil {
				return err
			}
			next = max(next, most)
		}
		for _, t := range tables() {
			query := copyOf(t, alias, offset)
			if query == "" {
				continue
			}
			result, err := conn.ExecContext(ctx, query)
			if err != nil {
				return fmt.Errorf("copy %s: %w", t.name, err)
			}
			if n, err := result.RowsAffected(); err == nil {
				done.Rows += uint64(n)
			}
		}
		offset += next
	}
	for _, of := range []string{ofMinutes, ofHours} {
		if _, err := conn.ExecContext(ctx, "INSERT INTO merged.progress VALUES ($1, $2)", of, offset); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "INSERT INTO merged.about SELECT $1, min(opened) FROM m0.about", Version)
	return err
}

// copyOfNumbered copies what the new file does not have yet of a table whose rows have numbers. A packed file may have
// several rows of a key.
func copyOfNumbered(name, id, alias string) string {
	var list []string
	for _, t := range tables() {
		if t.name == name {
			for _, c := range t.columns[1:] {
				list = append(list, c.name)
			}
		}
	}
	return strings.NewReplacer("TABLE", name, "ID", id, "COLUMNS", strings.Join(list, ", "), "FILE", alias).Replace(`
INSERT INTO merged.TABLE SELECT (row_number() OVER () - 1 + (SELECT count(*) FROM merged.TABLE))::UINTEGER, COLUMNS
FROM (SELECT DISTINCT ON (ID) COLUMNS FROM FILE.TABLE) WHERE ID NOT IN (SELECT ID FROM merged.TABLE)`)
}

// copyOf copies the rows of a table of a file into the new one, "" if it is not copied like this. Numbers of keys,
// paths and segments become those that they have there.
func copyOf(t table, alias string, offset uint64) string {
	from := alias + "." + quoted(t.name) + " t"
	var changed []string
	for _, c := range t.columns {
		id, number := c.name, c.name
		switch {
		case t.name == "progress" || t.name == "about" || t.name == tableKeys || t.name == tablePaths || t.name == tableSegments:
			return ""
		case c.name == "batch" || c.name == "part":
			changed = append(changed, fmt.Sprintf("(t.%s + %d)::UINTEGER AS %s", number, offset, number))
		case c.kind == "UINTEGER" && (c.name == "key" || c.name == "path" || c.name == "segment"):
			table := c.name + "s"
			from += fmt.Sprintf(
				" JOIN %[1]s.%[2]s o_%[3]s ON t.%[3]s = o_%[3]s.number JOIN merged.%[2]s n_%[3]s ON o_%[3]s.%[3]s = n_%[3]s.%[3]s",
				alias,
				table,
				id,
			)
			changed = append(changed, "n_"+id+".number AS "+id)
		}
	}
	into := "INSERT INTO merged." + quoted(t.name)
	if len(changed) == 0 { // names are there once
		return into + " SELECT * FROM " + from + " EXCEPT SELECT * FROM merged." + quoted(t.name)
	}
	return into + " SELECT t.* REPLACE (" + strings.Join(changed, ", ") + ") FROM " + from
}
