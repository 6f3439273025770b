// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/vishvananda/netns"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/problem"
)

var (
	downTimeout      = patience.Of(30 * time.Second) // for everything
	agentStopTimeout = patience.Of(10 * time.Second) // for removing one agent's programs
	killTimeout      = patience.Of(10 * time.Second) // for killed processes to end: one that loads a program ends only after the verifier
	lastExit         = patience.Of(time.Second)      // for processes that others started in a namespace
)

// LeftError reports what Down could not remove.
type LeftError struct{ Err error }

func (e *LeftError) Error() string { return "not everything could be removed: " + e.Err.Error() }

// Unwrap returns the causes.
func (e *LeftError) Unwrap() error { return e.Err }

// Down removes everything that belongs to the lab: agents with their state in the
// kernel, processes, namespaces with their links, and files. It stops neither at a
// failure nor when the context ends, and may be called again. Its error is a
// *LeftError.
func (l *Lab) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	s, err := readState(l.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &LeftError{err}
	}
	// Agents are processes like others. One that is still starting reacts only to
	// signals.
	faults := []error{terminate(ctx, s.Processes), l.removeAgents(ctx)}
	for _, a := range s.Agents { // also those of namespaces that are gone
		faults = append(faults, removeAgentFiles(a.ID))
	}
	// Processes that started meanwhile.
	if s, err = readState(l.directory); err != nil {
		return &LeftError{errors.Join(append(faults, err)...)}
	}
	faults = append(faults, terminate(ctx, s.Processes))
	for _, name := range s.Namespaces {
		faults = append(faults, reportInhabitants(name), removeNamespace(name))
	}
	for _, n := range l.nodes {
		if n.handle.IsOpen() {
			faults = append(faults, n.handle.Close())
		}
	}
	l.nodes = map[string]*Node{}
	if err := errors.Join(append(faults, os.RemoveAll(l.directory))...); err != nil {
		return &LeftError{err}
	}
	return nil
}

// removeAgents removes the state of the agents of all nodes, concurrently.
func (l *Lab) removeAgents(ctx context.Context) error {
	faults := make([]error, len(l.topology.Nodes))
	var group sync.WaitGroup
	for i, spec := range l.topology.Nodes {
		if n := l.nodes[spec.Name]; n != nil {
			group.Go(func() { faults[i] = n.removeAgent(ctx) })
		}
	}
	group.Wait()
	return errors.Join(faults...)
}

// reportInhabitants names processes that keep a namespace alive, but were not started
// by the lab.
func reportInhabitants(name string) error {
	handle, err := netns.GetFromPath(filepath.Join(namespaceDirectory, name))
	if err != nil {
		return nil
	}
	defer handle.Close()
	var pids []int
	for deadline := time.Now().Add(lastExit); ; time.Sleep(readyPoll) {
		pids, err = processesIn(handle)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return problem.New(
		fmt.Sprintf("processes %v still run in %s and keep it alive", pids, name),
		"the lab did not start them: stop them by hand",
	)
}
