// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepApart leaves the last CPU to threads that pin themselves there: whoever
// reads what programs write is on the others then. Threads that begin later
// inherit it. With one CPU it does nothing, and says so.
func keepApart() (apart bool, release func() error, err error) {
	cpus, err := usableCPUs()
	if err != nil || len(cpus) < 2 {
		return false, func() error { return nil }, err
	}
	release = func() error { return confine(cpus) }
	if err := confine(cpus[:len(cpus)-1]); err != nil {
		return false, nil, errors.Join(err, release())
	}
	return true, release, nil
}

// confine keeps all threads of this process to CPUs.
func confine(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	// A thread that was begun meanwhile may have been begun by one that is not
	// confined yet: until nobody is new.
	var done []int
	for {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list the threads of this process: %w", err)
		}
		found := false
		for _, task := range tasks {
			thread, err := strconv.Atoi(task.Name())
			if err != nil || slices.Contains(done, thread) {
				continue
			}
			if err := unix.SchedSetaffinity(thread, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("keep threads to CPUs %v: %w", cpus, err)
			}
			done, found = append(done, thread), true
		}
		if !found {
			return nil
		}
	}
}

// startOn starts a process that may use CPUs which this one's threads keep off.
func startOn(command *exec.Cmd, cpus []int) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		var set unix.CPUSet
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- err
			return
		}
		done <- command.Start()
	}()
	return <-done
}
