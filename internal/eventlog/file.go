// SPDX-License-Identifier: Apache-2.0

package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/waymark-net/waymark/internal/replacefile"
)

// mostFile bounds a file, in octets.
const mostFile = 4 << 20

// File keeps the events of a log for the program that runs next. One goroutine uses it at a time.
type File struct {
	path  string
	log   *Log
	saved uint64 // changes of the log that are in the file
	fault string // why they could not be saved; "": they could
}

// NewFile is the file of a log.
func NewFile(path string, log *Log) *File { return &File{path: path, log: log} }

// Restore reads what an earlier program kept, if there is such a file. One that cannot be read completely is set
// aside: the error says where.
func (f *File) Restore(now time.Time) error {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var saved []byte
	switch {
	case err != nil:
	case info.Size() > mostFile:
		err = errors.New("it is larger than such a file")
	default:
		saved, err = os.ReadFile(f.path)
	}
	if err == nil {
		err = f.log.Restore(saved, now)
	}
	if err == nil {
		return nil
	}
	aside := f.path + ".broken"
	if e := os.Rename(f.path, aside); e != nil {
		return fmt.Errorf("%w, and it could not be set aside: %w", err, e)
	}
	return fmt.Errorf("%w (the file is %s now)", err, aside)
}

// Save writes the file anew if there is news. A crash leaves either the old or the new one complete. What could not be
// written is tried again by the next call, which gives the same error once only.
func (f *File) Save() error {
	changes := f.log.Totals().Changes
	if changes == f.saved {
		return nil
	}
	err := replacefile.Write(f.path, f.log.Save(), 0o600)
	if err == nil {
		f.saved, f.fault = changes, ""
		return nil
	}
	if err.Error() == f.fault {
		return nil
	}
	f.fault = err.Error()
	return err
}
