// SPDX-License-Identifier: Apache-2.0

// Package instances says which agent has which network namespace of a machine: one agent holds
// the lock of an instance, its pins outlive it, and what ended agents have left is found and
// removed.
package instances

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/problem"
)

// ErrAgentRuns is why a second agent of a network namespace is refused.
var ErrAgentRuns = errors.New("an agent serves this network namespace already")

// Lock holds an instance for one process. The kernel releases it when the process ends, for
// whatever reason.
type Lock struct {
	instance api.Instance
	file     *os.File
}

// Hold makes the runtime directory and takes its lock.
func Hold(instance api.Instance) (*Lock, error) {
	for {
		if err := os.MkdirAll(instance.Dir, 0o700); err != nil {
			return nil, asRoot(fmt.Errorf("make the runtime directory: %w", err))
		}
		f, err := os.OpenFile(instance.LockFile(), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			continue // the last holder has just removed the directory
		}
		if err != nil {
			return nil, asRoot(fmt.Errorf("open the agent's lock: %w", err))
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			defer f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, problem.Wrap(
					fmt.Errorf("%w%s", ErrAgentRuns, holder(f)),
					"stop it with 'waymark agent stop', or load the new configuration with 'waymark agent reload'",
				)
			}
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !isAt(f, instance.LockFile()) {
			f.Close() // the last holder had removed the locked file
			continue
		}
		if err := f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("write the agent's lock: %w", err)
			}
		}
		return &Lock{instance: instance, file: f}, nil
	}
}

// asRoot gives an error its cure if root would not get it.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return problem.Wrap(err, "run it as root")
	}
	return err
}

// holder names the process that wrote the lock, for a message.
func holder(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

func isAt(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}

// Release releases the instance; files for the next agent stay.
func (l *Lock) Release() { l.file.Close() }

// Clear removes all files, and releases the instance.
func (l *Lock) Clear() error {
	defer l.file.Close()
	return os.RemoveAll(l.instance.Dir)
}
