// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
	"github.com/waymark-net/waymark/ioam"
)

// JSONL is a sink of kind jsonl.
type JSONL struct {
	Path string `key:"path" absent:"\"-\"" doc:"Of jsonl: the file to append to; - is standard output. A relative path starts from the directory in which the agent was started. When the file is renamed or removed, the next record creates it again, so rotation needs no signal. It may be a named pipe: what no process reads is lost and counted."`
}

func (j *JSONL) setDefaults(*ioam.NodeID) {
	if j.Path == "" {
		j.Path = "-"
	}
}

func (j *JSONL) place() (text, key string) {
	written := *j
	written.setDefaults(nil)
	return strconv.Quote(written.Path), "path"
}

func (j *JSONL) rules(string, func(path, problem, cure string)) {}

// files checks what opening the file needs, without opening it: that would create the file, or
// wait for the reader of a pipe.
func (j *JSONL) files() []fileFault {
	if j.Path == "" || j.Path == "-" {
		return nil
	}
	fault := func(unread error, problem, cure string) []fileFault {
		return []fileFault{{key: "path", unread: unread, problem: problem, cure: cure}}
	}
	directory := filepath.Dir(j.Path)
	switch info, err := os.Stat(j.Path); {
	case err == nil && info.IsDir():
		return fault(nil, fmt.Sprintf("%s is a directory", j.Path), "name a file in it")
	case err == nil:
		if err := unix.Access(j.Path, unix.W_OK); err != nil {
			return fault(err, fmt.Sprintf("%s may not be written: %v", j.Path, err), "name a file that the agent may write")
		}
		return nil
	}
	switch info, err := os.Stat(directory); {
	case err != nil:
		return fault(err, fmt.Sprintf("the directory of %s cannot be used: %v", j.Path, err), "name a file in a directory that exists, or create it: mkdir -p "+directory)
	case !info.IsDir():
		return fault(nil, fmt.Sprintf("%s is not a directory", directory), "name a file in a directory")
	}
	if err := unix.Access(directory, unix.W_OK|unix.X_OK); err != nil {
		return fault(err, fmt.Sprintf("no file can be created in %s: %v", directory, err), "name a file in a directory that the agent may write")
	}
	return nil
}

func (j *JSONL) remote() (to CollectorAddress, clear, ok bool) { return to, false, false }

func (j *JSONL) depends() bool { return false }

func (j *JSONL) open(_ ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	written := *j
	written.setDefaults(nil)
	return jsonl.Open(written.Path, env.Stdout, env.Room)
}
