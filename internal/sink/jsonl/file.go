// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// File is a file to append lines to that follows its path: a file that was renamed or
// removed is created again, so that rotation needs no signal. If the file ends in the
// middle of a line, that line is ended first.
//
// A named pipe needs a process that reads it. While there is none, writes fail with
// ErrUnread; nothing waits for it.
type File struct {
	path  string
	open  *os.File // nil: a named pipe that no process has opened to read yet
	lines *Lines
	pipe  bool
}

// ErrUnread is the error of a write to a named pipe that no process reads.
var ErrUnread error = problem.New("no process reads this named pipe", "start one that does, or name a file")

// OpenFile opens a file to append to, or creates it; a relative path starts from the
// working directory.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	if err := f.reopen(); err != nil && !errors.Is(err, ErrUnread) {
		return nil, err
	}
	return f, nil
}

// Fault is why nothing can be written now, as far as the opening tells: a named pipe has no reader.
func (f *File) Fault() error {
	if f.open == nil {
		return unread(f.path)
	}
	return nil
}

func (f *File) reopen() error {
	// Without O_NONBLOCK, a named pipe would wait for a reader.
	open, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NONBLOCK, 0o640)
	if errors.Is(err, unix.ENXIO) && isPipe(os.Stat(f.path)) {
		f.pipe = f.pipe || f.open == nil
		return unread(f.path)
	}
	if err != nil {
		return problem.Wrap(err, "name a file in a directory that exists and may be written")
	}
	if f.open != nil {
		f.open.Close()
	}
	f.open, f.lines, f.pipe = open, &Lines{to: open, torn: isTorn(f.path)}, isPipe(open.Stat())
	return nil
}

func unread(path string) error { return &fs.PathError{Op: "write", Path: path, Err: ErrUnread} }

func isPipe(info fs.FileInfo, err error) bool {
	return err == nil && info.Mode().Type() == fs.ModeNamedPipe
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
	if f.open == nil {
		return f.reopen()
	}
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

// Append follows the path and writes lines. lost is why the path cannot be followed: the lines are
// then in the file that was open.
func (f *File) Append(b []byte) (n int, lost, err error) {
	lost = f.Follow()
	n, err = f.Write(b)
	return n, lost, err
}

// Write appends lines to the file that is open. A process that reads a pipe and stops makes it
// wait; closing the file ends that.
func (f *File) Write(b []byte) (int, error) {
	if err := f.Fault(); err != nil {
		return 0, err
	}
	n, err := f.lines.Write(b)
	if f.pipe && errors.Is(err, syscall.EPIPE) { // the next reader gets what is written then
		err = unread(f.path)
	}
	return n, err
}

// Close closes the file, which then no longer follows its path.
func (f *File) Close() error {
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}
