// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netns"
)

const (
	agentStopTimeout = 10 * time.Second // for the orderly end of one agent
	killGrace        = time.Second      // for killed processes to be gone
)

// Down removes everything that belongs to the lab: agents with what they keep
// in the kernel, processes, namespaces with their links, and files. It does not
// stop at a failure, and may be called again.
func (l *Lab) Down(ctx context.Context) error {
	s, err := readState(l.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var faults []error
	for _, a := range s.Agents {
		if err := l.stopAgent(ctx, a, s.Processes); err != nil {
			l.log.Warn("an agent did not stop as it should", "node", a.Node, "error", err)
		}
	}
	// Processes that started meanwhile, the stopping ones among them.
	if s, err = readState(l.directory); err != nil {
		return err
	}
	faults = append(faults, terminate(ctx, s.Processes))
	for _, a := range s.Agents {
		faults = append(faults, removeAgentFiles(a.ID))
	}
	for _, name := range s.Namespaces {
		faults = append(faults, reportInhabitants(name), removeNamespace(name))
	}
	for _, n := range l.nodes {
		if n.handle.IsOpen() {
			faults = append(faults, n.handle.Close())
		}
	}
	l.nodes = map[string]*Node{}
	return errors.Join(append(faults, os.RemoveAll(l.directory))...)
}

// reportInhabitants names the processes that keep a namespace in existence
// though the lab did not start them.
func reportInhabitants(name string) error {
	handle, err := netns.GetFromPath(filepath.Join(namespaceDirectory, name))
	if err != nil {
		return nil
	}
	defer handle.Close()
	var pids []int
	for deadline := time.Now().Add(killGrace); ; time.Sleep(readyPoll) {
		pids, err = inhabitants(handle)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return fmt.Errorf("processes %v still run in %s, which ends only with them; the lab did not start them: end them by hand", pids, name)
}
