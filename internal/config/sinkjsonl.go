// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"

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

func (j *JSONL) files() []fileFault { return nil }

func (j *JSONL) remote() (to CollectorAddress, clear, ok bool) { return to, false, false }

func (j *JSONL) depends() bool { return false }

func (j *JSONL) open(_ ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	written := *j
	written.setDefaults(nil)
	return jsonl.Open(written.Path, env.Stdout, env.Room)
}
