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

// Checked is what is known of a file after it was read.
type Checked struct {
	Name    string
	State   State
	Packets uint64
	Records uint64
	Bytes   int64
	Fault   error // nil: all of it can be read, and its rollups agree with its packets
}

// Check reads all that the files of a directory have, without a collector: those that a running one writes are
// left out. It changes nothing.
func Check(ctx context.Context, directory string, memory int64) ([]Checked, error) {
	c, db, err := visit(directory, memory)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	running := locked(directory)
	var list []Checked
	for i, e := range c.Files {
		one := Checked{Name: e.Name, State: e.State, Packets: e.Packets, Records: e.Records, Bytes: e.Bytes}
		switch {
		case e.State == SetAside:
			one.Fault = fmt.Errorf("it was moved away: %s", e.Reason)
		case running && e.State == Open:
			continue
		default:
			one.Fault = visitFile(ctx, db, filepath.Join(directory, e.Name+suffix), fmt.Sprintf("c%d", i), one.read)
		}
		if err := ctx.Err(); err != nil {
			return list, err
		}
		list = append(list, one)
	}
	return list, nil
}

// locked reports whether a collector has the directory open.
func locked(directory string) bool {
	f, err := lockDirectory(directory)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrInUse)
}

// visit reads the catalog of a directory, and opens a database to read its files.
func visit(directory string, memory int64, also ...string) (*catalog, *sql.DB, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, nil, err
	}
	c, err := readCatalog(directory)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; name the directory of a store", err)
	}
	c.Files = c.current(directory)
	db, err := database(memory, "", append(also, directory)...)
	return c, db, err
}

// visitFile attaches a file for reading, and calls a function.
func visitFile(ctx context.Context, db *sql.DB, path, alias string, do func(context.Context, *sql.Conn, string) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "ATTACH "+literal(path)+" AS "+alias+" (READ_ONLY)"); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "DETACH "+alias) }()
	version, err := versionOf(ctx, conn, alias)
	switch {
	case err != nil:
		return err
	case version == 0:
		return errors.New("it has no tables of this program")
	case version > Version:
		return fmt.Errorf("its tables are of version %d, and this program knows up to %d; use a newer one", version, Version)
	}
	return do(ctx, conn, alias)
}

// read reads every value of a file, and compares the rollups with the packets.
func (c *Checked) read(ctx context.Context, conn *sql.Conn, alias string) error {
	there, err := columnsThere(ctx, conn, alias)
	if err != nil {
		return err
	}
	f := File{Alias: alias, columns: there}
	c.Packets, c.Records = 0, 0
	for _, t := range tables() {
		if there[t.name] == nil {
			continue
		}
		var rows uint64
		var digest sql.NullString
		if err := conn.QueryRowContext(ctx, "SELECT count(*), sum(hash(t))::VARCHAR FROM "+alias+"."+quoted(t.name)+" t").Scan(&rows, &digest); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		switch {
		case t.name == tablePackets:
			c.Packets = rows
		case t.columns[0].name == "batch":
			c.Records += rows
		}
	}
	var packets, rolled uint64
	err = conn.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM "+f.From(tablePackets)+" WHERE time IS NOT NULL AND batch < (SELECT coalesce(max(upto), 0) FROM "+f.From("progress")+
		" WHERE of = 'minutes')), (SELECT coalesce(sum(packets), 0)::UBIGINT FROM "+f.From("path_1m")+")").Scan(&packets, &rolled)
	if err == nil && packets != rolled {
		err = fmt.Errorf("rollups have %d packets, of %d", rolled, packets)
	}
	return err
}

// Export writes the tables of closed files as Parquet into a directory: FILE/TABLE.parquet. It changes nothing in
// the store, and can be done while a collector runs. wanted are tables; none: all that are not empty.
func Export(
	ctx context.Context,
	directory, to string,
	from, until time.Time,
	wanted []string,
	memory int64,
	wrote func(file string, rows int64),
) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	c, db, err := visit(directory, memory, to)
	if err != nil {
		return err
	}
	defer db.Close()
	running := locked(directory)
	for i, e := range c.Files {
		if !e.overlaps(from, until) || e.State == SetAside || running && e.State == Open {
			continue
		}
		err := visitFile(
			ctx,
			db,
			filepath.Join(directory, e.Name+suffix),
			fmt.Sprintf("e%d", i),
			func(ctx context.Context, conn *sql.Conn, alias string) error {
				return exportFile(ctx, conn, alias, filepath.Join(to, e.Name), wanted, wrote)
			},
		)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name+suffix, err)
		}
	}
	return nil
}

func exportFile(ctx context.Context, conn *sql.Conn, alias, to string, wanted []string, wrote func(string, int64)) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	there, err := columnsThere(ctx, conn, alias)
	if err != nil {
		return err
	}
	for _, t := range tables() {
		if there[t.name] == nil || len(wanted) > 0 && !slices.Contains(wanted, t.name) {
			continue
		}
		var rows int64
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM "+alias+"."+quoted(t.name)).Scan(&rows); err != nil {
			return err
		}
		if rows == 0 {
			continue
		}
		file := filepath.Join(to, t.name+".parquet")
		if _, err := conn.ExecContext(ctx, "COPY "+alias+"."+quoted(t.name)+" TO "+literal(file+".new")+" (FORMAT parquet, COMPRESSION zstd)"); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
		wrote(file, rows)
	}
	return nil
}

// Tables are the names of all tables.
func Tables() (list []string) {
	for _, t := range tables() {
		list = append(list, t.name)
	}
	return list
}

// Compacted is what became of the files of a day.
type Compacted struct {
	Into          string
	From          []string
	Before, After int64 // bytes
	Rows          uint64
}

// mostTogether is how many bytes files have that become one.
const mostTogether = 1 << 30

// Compact makes one file of the closed files of each day that is over, while they have less than 1 GB together. No
// collector may run. A file is complete before those that it was made of are removed: when it is killed, all
// packets are there, and once.
func Compact(ctx context.Context, directory string, memory int64, now time.Time) ([]Compacted, error) {
	lock, err := lockDirectory(directory)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	c, db, err := visit(directory, memory)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := c.finish(directory); err != nil {
		return nil, err
	}
	var done []Compacted
	for len(c.Files) > 0 {
		group := c.together(now)
		if len(group) < 2 {
			return done, nil
		}
		one, err := compactFiles(ctx, db, directory, c, group)
		if err != nil {
			return done, err
		}
		done = append(done, one)
	}
	return done, nil
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
	part := filepath.Join(directory, "compact.part") // no file of the store until it is complete
	for _, end := range []string{"", ".wal"} {
		if err := os.Remove(part + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return done, err
		}
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return done, err
	}
	defer conn.Close()
	if err := merge(ctx, conn, directory, part, group, &done); err != nil {
		return done, err
	}
	into.Bytes, into.Packets, into.Records, into.First, into.Last = 0, 0, 0, time.Time{}, time.Time{}
	for _, e := range group {
		into.Packets, into.Records = into.Packets+e.Packets, into.Records+e.Records
		into.spans(e.First, e.Last)
		into.Closed = e.Closed
		done.From, done.Before = append(done.From, e.Name), done.Before+e.Bytes
	}
	if info, err := os.Stat(part); err == nil {
		into.Bytes = info.Size()
	}
	done.After = into.Bytes
	return done, replace(directory, c, part, group, &into)
}

// replace puts a file in the place of those that it was made of. The catalog says first what is meant: a start after
// a kill does the rest, see finish.
func replace(directory string, c *catalog, part string, group []*Entry, into *Entry) error {
	if err := os.Chmod(part, 0o440); err != nil {
		return err
	}
	for _, e := range group {
		into.Replaces = append(into.Replaces, e.Name)
	}
	c.Files = append(c.Files, into)
	c.sort()
	if err := c.write(directory); err != nil {
		return err
	}
	if err := os.Rename(part, filepath.Join(directory, into.Name+suffix)); err != nil {
		return err
	}
	return c.finish(directory)
}

// current are the files without those that others were made of, and without those that are not complete.
func (c *catalog) current(directory string) []*Entry {
	gone := map[string]bool{}
	for _, e := range c.Files {
		for _, name := range e.Replaces {
			gone[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.Files), func(e *Entry) bool { return gone[e.Name] })
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
		for id, table := range map[string]string{"key": tableKeys, "path": tablePaths, "segment": tableSegments} {
			if _, err := conn.ExecContext(ctx, "INSERT INTO merged."+table+" SELECT * REPLACE ((row_number() OVER () - 1 + (SELECT count(*) FROM merged."+table+"))::UINTEGER AS number) FROM "+
				alias+"."+table+" WHERE "+id+" NOT IN (SELECT "+id+" FROM merged."+table+")"); err != nil {
				return fmt.Errorf("copy %s: %w", table, err)
			}
		}
		var next uint64
		for _, t := range tables() {
			number := t.columns[0].name // batch or part, of what has one
			if number != "batch" && number != "part" {
				continue
			}
			var most uint64
			if err := conn.QueryRowContext(ctx, "SELECT coalesce(max("+number+") + 1, 0)::UBIGINT FROM "+alias+"."+quoted(t.name)).Scan(&most); err != nil {
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
