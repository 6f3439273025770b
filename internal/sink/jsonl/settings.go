// SPDX-License-Identifier: Apache-2.0

package jsonl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// Settings configure a sink of kind jsonl.
type Settings struct {
	Path string `key:"path" optional:"true"`
}

// KeyTexts say what the keys of the settings mean.
var KeyTexts = yamlfile.KeyTexts{
	"path": "Of jsonl: the file to append to; - is standard output. A relative path starts from the directory in which " +
		"the agent was started. When the file is renamed or removed, the next record creates it again, so rotation " +
		"needs no signal. It may be a named pipe. A write that fails, because the disk is full or no process reads " +
		"the pipe, is tried again within 5s, while a bounded number of records waits; what has no room is lost and counted. A disk " +
		"that fills up may leave part of a line, which is ended before the next record: readers skip a line that is not JSON.",
	"path, absent": "\"-\"",
}

// SetDefaults fills in the defaults.
func (s *Settings) SetDefaults(*ioam.NodeID) {
	if s.Path == "" {
		s.Path = "-"
	}
}

// Place is the file.
func (s *Settings) Place() (text, key string) {
	written := *s
	written.SetDefaults(nil)
	return strconv.Quote(written.Path), "path"
}

// Check finds nothing: files are looked at by Files.
func (s *Settings) Check(string, func(path, problem, cure string)) {}

// Files checks what opening the file needs, without opening it: that would create the file, or
// wait for the reader of a pipe.
func (s *Settings) Files() []sink.FileFault {
	if s.Path == "" || s.Path == "-" {
		return nil
	}
	fault := func(unread error, problem, cure string) []sink.FileFault {
		return []sink.FileFault{{Key: "path", Unread: unread, Problem: problem, Cure: cure}}
	}
	directory := filepath.Dir(s.Path)
	switch info, err := os.Stat(s.Path); {
	case err == nil && info.IsDir():
		return fault(nil, fmt.Sprintf("%s is a directory", s.Path), "name a file in it")
	case err == nil:
		if err := unix.Access(s.Path, unix.W_OK); err != nil {
			return fault(err, fmt.Sprintf("%s may not be written: %v", s.Path, err), "name a file that the agent may write")
		}
		return nil
	}
	switch info, err := os.Stat(directory); {
	case err != nil:
		return fault(
			err,
			fmt.Sprintf("the directory of %s cannot be used: %v", s.Path, err),
			"name a file in a directory that exists, or create it: mkdir -p "+directory,
		)
	case !info.IsDir():
		return fault(nil, fmt.Sprintf("%s is not a directory", directory), "name a file in a directory")
	}
	if err := unix.Access(directory, unix.W_OK|unix.X_OK); err != nil {
		return fault(err, fmt.Sprintf("no file can be created in %s: %v", directory, err), deniedCure(directory, err))
	}
	return nil
}

// deniedCure is the cure where no file can be created in a directory.
func deniedCure(directory string, err error) string {
	if absolute, unknown := filepath.Abs(directory); unknown == nil && errors.Is(err, unix.EROFS) {
		// To the service of the package, all other directories are read-only (ProtectSystem=strict).
		return "name a file in /var/log/waymark, or let the service write there: systemctl edit waymark, [Service], ReadWritePaths=" + absolute
	}
	return "name a file in a directory that the agent may write"
}

// Remote is nil: nothing leaves the node.
func (s *Settings) Remote() *sink.Remote { return nil }

// DependsOnNode is false.
func (s *Settings) DependsOnNode() bool { return false }

// Open makes the sink.
func (s *Settings) Open(_ ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	written := *s
	written.SetDefaults(nil)
	return Open(written.Path, env.Stdout, env.QueueSpace)
}
