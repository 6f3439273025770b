// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"os"
)

// File is a file to append to that follows its path: one that was renamed or
// removed is made anew, so that rotation needs no signal.
type File struct {
	path string
	open *os.File
}

// OpenFile opens a file to append to, or makes it; a relative path starts from
// the working directory.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	if err := f.reopen(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) reopen() error {
	open, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("%w; name a file in a directory that exists and may be written", err)
	}
	if f.open != nil {
		f.open.Close()
	}
	f.open = open
	return nil
}

// Follow opens the path again when it no longer leads to the open file. On
// error the open file is written on.
func (f *File) Follow() error {
	open, err := f.open.Stat()
	if errors.Is(err, os.ErrClosed) {
		return err
	}
	there, gone := os.Stat(f.path)
	if err == nil && gone == nil && os.SameFile(there, open) {
		return nil
	}
	return f.reopen()
}

// Write appends to the file that is open.
func (f *File) Write(b []byte) (int, error) { return f.open.Write(b) }

// Close closes it; it follows its path no more.
func (f *File) Close() error { return f.open.Close() }
