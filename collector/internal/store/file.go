// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// open is the file that is written. One goroutine works on it at a time.
type open struct {
	entry     *Entry // in the catalog
	alias     string // in the database
	conn      *sql.Conn
	known     *known
	rows      map[string]*row // by kind of records
	appenders map[string]*duckdb.Appender
	packet    packet
	batch     uint32     // of the next transaction
	rolling   sync.Mutex // guards rolled: rollups are made while others are written
	rolled    map[string]uint32
	minute    time.Time // up to which rollups were made
	packed    bool      // it is only read: the catalog was lost

	rolledPackets uint64 // that there were when rollups were last begun
	progressed    func() // is called while they are made

	using sync.RWMutex // held by queries, and to close it
	gone  bool         // it was closed
}

// transaction is what one call of Write adds to a file: all of it, or nothing.
type transaction struct {
	file    *open
	ctx     context.Context
	batch   uint32
	touched []string // tables
	undo    []func()
	packets uint64
	records uint64
	times   spans
}

func (w *transaction) append(table string, values ...driver.Value) error {
	a, ok := w.file.appenders[table]
	if !ok {
		err := w.file.conn.Raw(func(c any) (err error) {
			connection, ok := c.(driver.Conn)
			if !ok {
				return errors.New("no connection of the database")
			}
			a, err = duckdb.NewAppender(connection, w.file.alias, "main", table)
			return err
		})
		if err != nil {
			return err
		}
		w.file.appenders[table] = a
	}
	if !slices.Contains(w.touched, table) {
		w.touched = append(w.touched, table)
	}
	return asRefused(a.AppendRow(values...))
}

// at notes the time of a record.
func (w *transaction) at(when time.Time) {
	for i := range w.times {
		s, isLast := &w.times[i], i == len(w.times)-1
		switch {
		case when.Before(s.First.Time):
		case !when.After(s.Last.Time):
			return
		case isLast && when.Sub(s.Last.Time) <= apart: // as most records
			s.Last = instant.Of(when.UTC())
			return
		}
	}
	w.times = w.times.add(spanOf(when, when)).bounded(w.file.entry.Opened)
}

// record appends a record.
func (w *transaction) record(r record.Record) error {
	switch r := r.(type) {
	case *record.Path:
		w.file.packet.ofPath(r)
		w.packets++
		return w.packet(&w.file.packet)
	case *record.Trace:
		if !IsTraffic(r) {
			break
		}
		w.file.packet.ofTrace(r)
		w.packets++
		if err := w.packet(&w.file.packet); err != nil {
			return err
		}
	}
	t, ok := kinds[r.Kind()]
	if !ok {
		return nil
	}
	w.records++
	into := w.file.rows[r.Kind()]
	if into == nil {
		into = newRow(t)
		w.file.rows[r.Kind()] = into
	}
	values := into.fill(w.batch, r)
	if !into.time.IsZero() {
		w.at(into.time)
	}
	return w.append(t.name, values...)
}

// write appends records in one transaction.
func (f *open) write(ctx context.Context, batch []record.Record) error {
	w := transaction{file: f, ctx: ctx, batch: f.batch}
	if _, err := f.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	err := w.all(batch)
	if err == nil {
		_, err = f.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		f.rollBack(&w)
		return err
	}
	f.batch++
	e := f.entry
	e.Packets, e.Records = e.Packets+w.packets, e.Records+w.records
	e.covers(w.times)
	return nil
}

func (w *transaction) all(batch []record.Record) error {
	for _, r := range batch {
		if err := w.record(r); err != nil {
			return err
		}
	}
	for _, name := range w.touched {
		if err := w.file.appenders[name].Flush(); err != nil {
			return asRefused(err)
		}
	}
	return nil
}

// rollBack undoes a transaction that failed. Its appenders may hold rows, so others are made.
func (f *open) rollBack(w *transaction) {
	for _, undo := range w.undo {
		undo()
	}
	f.closeAppenders()
	_, _ = f.conn.ExecContext(context.Background(), "ROLLBACK") // fails if the transaction has ended already
}

// closeAppenders lets go of rows that were not flushed.
func (f *open) closeAppenders() {
	for name, a := range f.appenders {
		_ = a.Clear()
		_ = a.Close()
		delete(f.appenders, name)
	}
}

// openFile attaches a file to be written to, makes its tables, and reads what is known in it.
func (s *Store) openFile(ctx context.Context, e *Entry) (*open, error) {
	path := s.path(e.Name)
	if err := makeWritable(path); err != nil {
		return nil, err
	}
	f := &open{
		entry: e, alias: s.nextAlias(), known: newKnown(),
		rows: map[string]*row{}, appenders: map[string]*duckdb.Appender{}, rolled: map[string]uint32{}, progressed: s.noteProgress,
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	f.conn = conn
	if _, err := conn.ExecContext(ctx, "ATTACH "+literal(path)+" AS "+f.alias); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := f.prepare(ctx, s.now()); err != nil {
		_, _ = conn.ExecContext(context.Background(), "DETACH "+f.alias)
		return nil, errors.Join(err, conn.Close())
	}
	return f, nil
}

// prepare makes the tables of a new file, or reads what an existing one has.
func (f *open) prepare(ctx context.Context, now time.Time) error {
	version, err := versionOf(ctx, f.conn, f.alias)
	if err != nil {
		return err
	}
	switch {
	case version > Version:
		return problem.New(fmt.Sprintf("its tables are of version %d, and this program knows up to %d", version, Version), "use a newer one")
	case version == 0:
		if err := f.create(ctx, now); err != nil {
			return err
		}
	}
	if f.entry.Version = version; version == 0 {
		f.entry.Version = Version
	}
	if f.packed, err = isPacked(ctx, f.conn, f.alias); err != nil {
		return err
	}
	if err := f.learn(ctx); err != nil {
		return err
	}
	return f.count(ctx)
}

// versionOf is the version of a file's tables; 0: it has none.
func versionOf(ctx context.Context, conn *sql.Conn, alias string) (version int, err error) {
	var tables int
	row := conn.QueryRowContext(ctx, "SELECT count(*) FROM duckdb_tables() WHERE database_name = $1 AND table_name = 'about'", alias)
	if err := row.Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	return version, conn.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM "+alias+".about").Scan(&version)
}

// create makes all tables at once.
func (f *open) create(ctx context.Context, now time.Time) error {
	statements := []string{"BEGIN"}
	for _, t := range tables() {
		statements = append(statements, t.create(f.alias))
	}
	for _, s := range statements {
		if _, err := f.conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	if _, err := f.conn.ExecContext(ctx, "INSERT INTO "+f.alias+".about VALUES ($1, $2)", Version, now); err != nil {
		return err
	}
	_, err := f.conn.ExecContext(ctx, "COMMIT")
	return err
}

// learn reads the keys, paths, segments and names that the file has.
func (f *open) learn(ctx context.Context) error {
	for _, of := range []struct {
		column, table string
		into          map[uint64]uint32
	}{{"key", tableKeys, f.known.keys}, {"path", tablePaths, f.known.paths}, {"segment", tableSegments, f.known.segments}} {
		err := each(ctx, f.conn, "SELECT "+of.column+", number FROM "+f.alias+"."+of.table, func(scan func(...any) error) error {
			var whole uint64
			var number uint32
			err := scan(&whole, &number)
			of.into[whole] = number
			return err
		})
		if err != nil {
			return err
		}
	}
	err := each(ctx, f.conn, "SELECT coalesce(exporter, ''), node, name FROM "+f.alias+"."+tableNodes, func(scan func(...any) error) error {
		var n nodeName
		var exporter string
		err := scan(&exporter, &n.id, &n.name)
		n.exporter, _ = netip.ParseAddr(exporter)
		f.known.nodes[n] = struct{}{}
		return err
	})
	if err != nil {
		return err
	}
	return each(
		ctx,
		f.conn,
		"SELECT coalesce(exporter, ''), ifindex, name FROM "+f.alias+"."+tableInterfaces,
		func(scan func(...any) error) error {
			var n interfaceName
			err := scan(&n.of, &n.index, &n.name)
			f.known.interfaces[n] = struct{}{}
			return err
		},
	)
}

// count finds out what the file has: the catalog may be older, when the collector was killed.
func (f *open) count(ctx context.Context) error {
	e := f.entry
	e.Packets, e.Records, e.First, e.Last, e.Times = 0, 0, time.Time{}, time.Time{}, nil
	next := uint32(0)
	for _, t := range tables() {
		if t.columns[0].name != "batch" {
			continue
		}
		var rows uint64
		var batch uint32
		var first, last sql.NullTime
		err := f.conn.QueryRowContext(ctx, "SELECT count(*), coalesce(max(batch) + 1, 0), min(time), max(time) FROM "+f.alias+"."+quoted(t.name)).
			Scan(&rows, &batch, &first, &last)
		if err != nil {
			return err
		}
		if next = max(next, batch); t.name == tablePackets {
			e.Packets = rows
		} else {
			e.Records += rows
		}
		times, err := f.timesIn(ctx, t.name, first.Time, last.Time)
		if err != nil {
			return err
		}
		e.covers(times)
	}
	f.batch = next
	return each(ctx, f.conn, "SELECT of, max(upto) FROM "+f.alias+".progress GROUP BY of", func(scan func(...any) error) error {
		var of string
		var upto uint32
		err := scan(&of, &upto)
		f.rolled[of] = upto
		return err
	})
}

// timesIn are the times of the rows of a table, from the first to the last. Only times that are far apart are looked at
// one by one.
func (f *open) timesIn(ctx context.Context, table string, first, last time.Time) (times spans, err error) {
	if first.IsZero() || last.Sub(first) <= longest+apart {
		if !first.IsZero() {
			times = spans{spanOf(first, last)}
		}
		return times, nil
	}
	hours := "SELECT min(time), max(time) FROM " + f.alias + "." + quoted(table) +
		" WHERE time IS NOT NULL GROUP BY epoch_ns(time) // $1 ORDER BY 1"
	rows, err := f.conn.QueryContext(ctx, hours, time.Hour.Nanoseconds())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&first, &last); err != nil {
			return nil, err
		}
		times = times.add(spanOf(first, last)).bounded(f.entry.Opened)
	}
	return times, rows.Err()
}

// each reads the rows of a query.
func each(ctx context.Context, conn *sql.Conn, query string, row func(scan func(...any) error) error) error {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// close makes the rollups that are missing, writes everything into the file, and lets go of it.
func (f *open) close(ctx context.Context, whole bool) error {
	f.closeAppenders()
	var err error
	if f.entry.Version == Version && !f.packed { // else its tables are others, and it stays as it is
		err = f.rollUp(ctx)
		if whole && err == nil {
			err = f.rollUpHours(ctx)
		}
	}
	if err == nil {
		_, err = f.conn.ExecContext(ctx, "CHECKPOINT "+f.alias)
	}
	return errors.Join(err, f.release())
}

// release lets go of the file as it is; what it has in its log is read when it is opened again.
func (f *open) release() error {
	f.closeAppenders()
	_, err := f.conn.ExecContext(context.Background(), "DETACH "+f.alias)
	return errors.Join(err, f.conn.Close())
}

// makeWritable lets a file be written to that exists and was closed.
func makeWritable(path string) error {
	err := os.Chmod(path, 0o640)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
