// SPDX-License-Identifier: Apache-2.0

// Package inputfile reads files that a user names, and ends although one is a named pipe that
// nothing writes into, or whose writer stops.
package inputfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// idle is how long a pipe may be silent.
var idle = 10 * time.Second

// Read reads a file, or as much of it as most+1 octets. A pipe that has a writer is read to its end.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a named pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(&patient{f}, most+1))
	switch info, fault := f.Stat(); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("read %s: nothing came for %v, and its end neither", path, idle)
	case err == nil && len(content) == 0 && fault == nil && info.Mode().Type() == fs.ModeNamedPipe:
		return nil, fmt.Errorf("read %s: no process writes into this named pipe", path)
	}
	return content, err
}

// patient reads a file, and waits a while for each part of a pipe.
type patient struct{ file *os.File }

func (p *patient) Read(b []byte) (int, error) {
	_ = p.file.SetReadDeadline(time.Now().Add(idle)) // regular files have none, and need none
	return p.file.Read(b)
}
