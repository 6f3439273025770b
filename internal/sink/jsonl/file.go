// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"errors"
	"fmt"
	"os"
)

// File is a file to append lines to that follows its path: a file that was renamed or
// removed is created again, so that rotation needs no signal. If the file ends in the
// middle of a line, that line is ended first.
type File struct {
	path  string
	open  *os.File
	lines *Lines
}

// OpenFile opens a file to append to, or creates it; a relative path starts from the
// working directory.
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

// isTorn reports whether a file ends in the middle of a line, because the disk was full
// at the last write. It is false for a file that may not be read.
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

// Follow opens the path again when it no longer leads to the open file. On error,
// writes continue to the open file.
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

// Close closes the file, which then no longer follows its path.
func (f *File) Close() error { return f.open.Close() }
