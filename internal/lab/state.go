// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/replacefile"
)

// DefaultDirectory holds one directory per lab.
const DefaultDirectory = "/run/waymark/lab"

const (
	stateFile    = "state.json"
	topologyFile = "topology.yaml"
	lockFile     = "lock"
)

// processID identifies a process uniquely: PIDs are reused, but not together with the
// start time.
type processID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since the machine started
}

// processRecord is a process that the lab started.
type processRecord struct {
	processID
	Node    string `json:"node"`
	Command string `json:"command"`
	Group   bool   `json:"group"` // it leads its own process group
}

// state is what is needed to take a lab down.
type state struct {
	Name       string          `json:"name"`
	Owner      *processID      `json:"owner,omitempty"` // the lab ends with this process
	Program    string          `json:"program,omitempty"`
	Namespaces []string        `json:"namespaces"`
	Agents     []agentRecord   `json:"agents"`
	Processes  []processRecord `json:"processes"`
}

// agentRecord is an agent that the lab started.
type agentRecord struct {
	Node string `json:"node"`
	ID   string `json:"id"` // names the agent's runtime directory
}

// identify reads the start time of a process; false when it is gone or dead.
func identify(pid int) (processID, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processID{}, false
	}
	// The name in parentheses may contain any text, so count after the last
	// parenthesis.
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return processID{}, false
	}
	// A thread that executes a program replaces the main thread, which is a zombie
	// meanwhile.
	state, threads := fields[0], fields[17]
	if state == "X" || state == "Z" && (threads == "0" || threads == "1") {
		return processID{}, false
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return processID{}, false
	}
	return processID{PID: pid, Start: start}, true
}

// alive reports whether the same process is still running.
func (p processID) alive() bool {
	now, ok := identify(p.PID)
	return ok && now == p
}

// claim makes the lab's directory with its first state, atomically.
func claim(directory string, s *state, topology []byte) error {
	parent := filepath.Dir(directory)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return problem.Wrap(fmt.Errorf("make the directory of labs: %w", err), "run it as root")
	}
	temporary, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if err := os.WriteFile(filepath.Join(temporary, topologyFile), topology, 0o644); err != nil {
		return err
	}
	if err := s.write(temporary); err != nil {
		return err
	}
	err = os.Rename(temporary, directory)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return fs.ErrExist
	}
	return err
}

func (s *state) write(directory string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replacefile.Write(filepath.Join(directory, stateFile), append(text, '\n'), 0o644)
}

func readState(directory string) (*state, error) {
	text, err := os.ReadFile(filepath.Join(directory, stateFile))
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(directory, stateFile), err)
	}
	return s, nil
}

// lock keeps other processes from changing the lab until the file is closed.
func lock(directory string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(directory, lockFile), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the lab's state: %w", err)
	}
	return file, nil
}

// update changes the state under a lock: several processes may work in a lab. It also
// drops processes that have ended.
func update(directory string, change func(*state)) error {
	held, err := lock(directory)
	if err != nil {
		return err
	}
	defer held.Close()
	s, err := readState(directory)
	if err != nil {
		return err
	}
	living := s.Processes[:0]
	for _, p := range s.Processes {
		if p.alive() {
			living = append(living, p)
		}
	}
	s.Processes = living
	change(s)
	return s.write(directory)
}
