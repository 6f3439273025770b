// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/duckdb/duckdb-go/v2"
)

// withLogs are the ends of the names of a file and its logs: the one that is written, the next one during a checkpoint, and
// the one that a start made of both.
var withLogs = []string{"", ".wal", ".wal.checkpoint", ".wal.recovery"}

// openDatabase opens the database of a collector, which may use the disk for questions that need much memory.
func (s *Store) openDatabase() error {
	scratch := filepath.Join(s.options.Directory, "scratch")
	_ = os.RemoveAll(scratch) // of a process that was killed
	processors := runtime.GOMAXPROCS(0)
	// Checkpoints are made by Store.checkpoint, and merge no groups of rows: packing writes all of them anew.
	list := append(settings(s.options.Memory, processors, scratch, s.options.Directory),
		"SET checkpoint_threshold = '1TB'", "SET max_vacuum_tasks = 0")
	var handle unsafe.Pointer
	// Threads of the database, which it has if it cannot be helped by others, inherit the priority.
	err := onThread(func() error {
		_ = lower(niceQuestion) // the first question says why it fails
		connector, err := duckdb.NewConnector("", nil)
		if err != nil {
			return err
		}
		if handle = handleOf(connector); handle != nil {
			list = append(list, fmt.Sprintf("SET external_threads = %d", processors))
		}
		s.db, err = set(connector, list)
		return err
	})
	if err == nil {
		s.helpers = startHelpers(handle, processors-1)
	}
	return err
}

// closeDatabase closes it, after its helpers have ended.
func (s *Store) closeDatabase() error {
	s.helpers.end()
	err := s.db.Close()
	s.db, s.helpers = nil, nil
	return err
}

// database opens DuckDB without a file of its own. threads is how many processors it uses; 0: all.
func database(memory int64, threads int, scratch string, directories ...string) (*sql.DB, error) {
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, err
	}
	return set(connector, settings(memory, threads, scratch, directories...))
}

// settings are those of a database: it reaches only some directories, and loads no extensions.
func settings(memory int64, threads int, scratch string, directories ...string) []string {
	var reached []string
	for _, d := range directories {
		reached = append(reached, literal(d))
	}
	list := []string{
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET memory_limit = " + literal(fmt.Sprintf("%dB", memory)),
		"SET temp_directory = " + literal(scratch),
		"SET preserve_insertion_order = false",
		"SET TimeZone = 'UTC'",
		"SET allowed_directories = [" + strings.Join(reached, ", ") + "]",
		"SET enable_external_access = false",
	}
	if threads > 0 {
		list = append(list, fmt.Sprintf("SET threads = %d", threads))
	}
	return list
}

// set makes the settings of a database, which cannot be changed any more.
func set(connector *duckdb.Connector, settings []string) (*sql.DB, error) {
	db := sql.OpenDB(connector)
	if err := addFunctions(context.Background(), db); err != nil {
		return nil, errors.Join(fmt.Errorf("set up the database: %w", err), db.Close())
	}
	for _, statement := range append(settings, "SET lock_configuration = true") {
		if _, err := db.Exec(statement); err != nil {
			return nil, errors.Join(fmt.Errorf("set up the database: %w", err), db.Close())
		}
	}
	return db, nil
}
