// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"errors"
	"fmt"
	"os"
)

// File is a file to append lines to that follows its path: one that was renamed
// or removed is made anew, so that rotation needs no signal. A part of a line that
// it ends with is ended first.
type File struct {
	path  string
	open  *os.File
	lines *Lines
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
	f.open, f.lines = open, &Lines{to: open, torn: isTorn(f.path)}
	return nil
}

// isTorn tells whether a file ends in the middle of a line, as far as it may be
// read: a disk was full when somebody wrote it last.
func isTorn(path string) bool {
	there, err := os.Stat(path)
	if err != nil || !there.Mode().IsRegular() || there.Size() == 0 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	last := []byte{'\n'}
	_, err = f.ReadAt(last, there.Size()-1)
	return err == nil && last[0] != '\n'
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

// Write appends lines to the file that is open.
func (f *File) Write(b []byte) (int, error) { return f.lines.Write(b) }

// Close closes it; it follows its path no more.
func (f *File) Close() error { return f.open.Close() }
