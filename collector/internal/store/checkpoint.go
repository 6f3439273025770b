// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// mostOfLog is how many octets the log of a file has before what is in it is moved into the file's tables.
const mostOfLog = 16 << 20

// checkpoint moves what was written from the log of the file into its tables, if the log is large. Writing waits for it,
// so the writer makes it, at its own priority and without help of threads that have a lower one. By itself, the database
// makes one at the end of any transaction, also of a rollup's, whose priority is low. One that failed is tried again when
// the log has grown as much again.
func (s *Store) checkpoint(ctx context.Context) error {
	path := s.path(s.file.entry.Name)
	log, err := os.Stat(path + ".wal")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case log.Size() < s.logged+mostOfLog:
		return nil
	}
	s.helpers.awaitLooking()
	if _, err := s.file.conn.ExecContext(ctx, "CHECKPOINT "+s.file.alias); err != nil {
		s.logged = log.Size()
		return fmt.Errorf("move the log of %s into its tables: %w", path, err)
	}
	s.logged = 0
	return nil
}
