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
	"time"

	"github.com/waymark-net/waymark/internal/problem"
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
// left out, and named as being written. It changes nothing.
func Check(ctx context.Context, directory string, memory int64) (list []Checked, written []string, err error) {
	c, db, err := visit(directory, memory, "")
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	running := locked(directory)
	for i, e := range c.Files {
		one := Checked{Name: e.Name, State: e.State, Packets: e.Packets, Records: e.Records, Bytes: e.Bytes}
		switch {
		case e.State == SetAside:
			one.Fault = fmt.Errorf("it was moved away: %s", e.Reason)
		case running && e.State == Open:
			written = append(written, e.Name)
			continue
		default:
			one.Fault = visitFile(ctx, db, filepath.Join(directory, e.Name+suffix), fmt.Sprintf("c%d", i), one.read)
		}
		if err := ctx.Err(); err != nil {
			return list, written, err
		}
		list = append(list, one)
	}
	return list, written, nil
}

// IsOpen reports whether a collector has the store of a directory open. It changes nothing.
func IsOpen(directory string) bool {
	if _, err := os.Stat(filepath.Join(directory, lockName)); err != nil {
		return false
	}
	return locked(directory)
}

// locked reports whether a collector has the directory open.
func locked(directory string) bool {
	f, err := lockDirectory(directory)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, ErrInUse)
}

// visit reads the catalog of a directory, and opens a database to read its files. scratch is a directory for what needs
// more memory; "": none.
func visit(directory string, memory int64, scratch string, also ...string) (*catalog, *sql.DB, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, nil, err
	}
	c, err := readCatalog(directory)
	if err != nil {
		return nil, nil, problem.Wrap(err, "name the directory of a store, with --directory or --config")
	}
	c.Files = c.current(directory)
	db, err := database(memory, 0, scratch, append(also, directory)...)
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
		return problem.New(fmt.Sprintf("its tables are of version %d, and this program knows up to %d", version, Version), "use a newer one")
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
		hash := "SELECT count(*), sum(hash(t))::VARCHAR FROM " + alias + "." + quoted(t.name) + " t"
		if err := conn.QueryRowContext(ctx, hash).Scan(&rows, &digest); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		switch {
		case t.name == tablePackets:
			c.Packets = rows
		case t.columns[0].name == "batch":
			c.Records += rows
		}
	}
	for _, name := range []string{tableFlows, tableDelays, tableWays} {
		if there[name] == nil {
			continue
		}
		var digest sql.NullString
		if err := conn.QueryRowContext(ctx, "SELECT sum(hash(t))::VARCHAR FROM "+alias+"."+name+" t").Scan(&digest); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	var packets, rolled uint64
	err = conn.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM "+f.From(tablePackets)+
		" WHERE time IS NOT NULL AND batch < (SELECT coalesce(max(upto), 0) FROM "+f.From("progress")+
		" WHERE of = 'minutes')), (SELECT coalesce(sum(packets), 0)::UBIGINT FROM "+f.From("path_1m")+")").Scan(&packets, &rolled)
	if err == nil && packets != rolled {
		err = fmt.Errorf("rollups have %d packets, of %d", rolled, packets)
	}
	return err
}

// Export writes the tables of closed files as Parquet into a directory: FILE/TABLE.parquet. It changes nothing in
// the store, and can be done while a collector runs: the files that it writes are left out, and returned. wanted are
// tables; none: all that are not empty.
func Export(
	ctx context.Context,
	directory, to string,
	from, until time.Time,
	wanted []string,
	memory int64,
	wrote func(file string, rows int64),
) (written []string, err error) {
	if to, err = filepath.Abs(to); err != nil {
		return nil, err
	}
	c, db, err := visit(directory, memory, "", to)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := os.MkdirAll(to, 0o750); err != nil {
		return nil, err
	}
	running := locked(directory)
	for i, e := range c.Files {
		switch {
		case running && e.State == Open: // the catalog does not know yet of which time it has something
			written = append(written, e.Name)
			continue
		case !e.overlaps(from, until) || e.State == SetAside:
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
			return written, fmt.Errorf("%s: %w", e.Name+suffix, err)
		}
	}
	return written, nil
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
		write := "COPY " + alias + "." + quoted(t.name) + " TO " + literal(file+".new") + " (FORMAT parquet, COMPRESSION zstd)"
		if _, err := conn.ExecContext(ctx, write); err != nil {
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
