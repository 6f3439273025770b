// SPDX-License-Identifier: Apache-2.0

// Package api is the local API of an agent: its instance, its types and a client. One
// agent serves one network namespace; its socket's path is derived from the namespace
// alone, so agents of different namespaces never meet.
package api

import (
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// InstancePrefix begins the ID of every instance.
const InstancePrefix = "netns-"

// Root is where agents keep state until the next boot.
const Root = "/run/waymark"

// Instance is the agent of one network namespace: its name and where it keeps its files.
type Instance struct {
	// ID names the network namespace: "netns-" and its cookie, which the
	// kernel never gives to a second namespace before the next boot.
	ID string
	// Dir is the runtime directory.
	Dir string
}

// Here is the instance of the network namespace of the calling thread.
func Here() (Instance, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Instance{}, fmt.Errorf("name this network namespace: socket: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return Instance{}, fmt.Errorf("name this network namespace: SO_NETNS_COOKIE: %w (needs Linux 5.14)", err)
	}
	return At(Root, cookie), nil
}

// At is the instance of the network namespace with the given cookie below root.
func At(root string, cookie uint64) Instance {
	id := InstancePrefix + strconv.FormatUint(cookie, 10)
	return Instance{ID: id, Dir: filepath.Join(root, id)}
}

// Socket is the API's Unix socket, which only the agent's own user may open.
func (i Instance) Socket() string { return filepath.Join(i.Dir, "agent.sock") }

// ReadSocket is the socket of those who may only read; it exists while the configuration names their group.
func (i Instance) ReadSocket() string { return filepath.Join(i.Dir, readSocket) }

const readSocket = "read.sock"

// LockFile is locked by the running agent.
func (i Instance) LockFile() string { return filepath.Join(i.Dir, "lock") }

// PathMTUFile keeps the path MTUs of tunnels.
func (i Instance) PathMTUFile() string { return filepath.Join(i.Dir, "path-mtu.json") }

// RunningFile keeps the running configuration while it differs from the file.
func (i Instance) RunningFile() string { return filepath.Join(i.Dir, "running.json") }

// EventsFile keeps the events of the last hour for the next agent.
func (i Instance) EventsFile() string { return filepath.Join(i.Dir, "events.jsonl") }

// QueuesFile keeps what is usual in this node's queues for the next agent.
func (i Instance) QueuesFile() string { return filepath.Join(i.Dir, "queues.json") }

// NamesFile keeps the names of other nodes that a collector told.
func (i Instance) NamesFile() string { return filepath.Join(i.Dir, "names.json") }

// HistoryFile keeps the history for the next agent.
func (i Instance) HistoryFile() string { return filepath.Join(i.Dir, "history.jsonl.gz") }
