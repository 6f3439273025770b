// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/duckdb/duckdb-go/v2"
)

// mostOfLog is how many octets the log of a file has before what is in it is moved into the file's tables.
const mostOfLog = 16 << 20

// checkpoint moves what was written from the log of the file into its tables, if the log is large. Writing waits for it,
// so the writer makes it, at its own priority and without help of threads that have a lower one. By itself, the database
// makes one at the end of any transaction, also of a rollup's, whose priority is low.
func (s *Store) checkpoint(ctx context.Context) error {
	path := s.path(s.file.entry.Name)
	log, err := os.Stat(path + ".wal")
	if err != nil || log.Size() < mostOfLog {
		return nil // without a log, nothing is in it
	}
	err = s.helpers.without(func() error {
		_, err := s.file.conn.ExecContext(ctx, "CHECKPOINT "+s.file.alias)
		return err
	})
	if of, ok := errors.AsType[*duckdb.Error](err); ok && of.Type == duckdb.ErrorTypeTransaction {
		return nil // a transaction of another connection is in its way: the next write tries it again
	}
	if err != nil {
		return fmt.Errorf("move the log of %s into its tables: %w", path, err)
	}
	return nil
}
