// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// KeepApart reserves the last CPU for threads that pin themselves to it, so that
// readers of records run on other CPUs. Threads created later inherit this. With
// one CPU it does nothing and returns false.
func KeepApart() (apart bool, release func() error, err error) {
	cpus, err := UsableCPUs()
	if err != nil || len(cpus) < 2 {
		return false, func() error { return nil }, err
	}
	release = func() error { return Confine(cpus) }
	if err := Confine(cpus[:len(cpus)-1]); err != nil {
		return false, nil, errors.Join(err, release())
	}
	return true, release, nil
}

// Confine restricts all threads of this process to CPUs.
func Confine(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	// A thread that is not confined yet may create another one meanwhile: repeat
	// until there are no new threads.
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

// StartOn starts a process on CPUs that this process's own threads may not use.
func StartOn(command *exec.Cmd, cpus []int) error {
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

// UsableCPUs returns the numbers of the CPUs that this process could use when it
// started.
var UsableCPUs = sync.OnceValues(func() ([]int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
})

// PinThread pins this goroutine to a CPU, counted back from the last one that
// this process may use. The first one usually serves the machine's interrupts.
func PinThread(before int) (release func(), err error) {
	cpus, err := UsableCPUs()
	if err != nil {
		return nil, err
	}
	if before >= len(cpus) {
		return nil, fmt.Errorf("%d CPUs are needed, %d may be used", before+1, len(cpus))
	}
	runtime.LockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	one.Set(cpus[len(cpus)-1-before])
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("stay on CPU %d: %w", cpus[len(cpus)-1-before], err)
	}
	return func() {
		// If the affinity cannot be restored, the thread stays locked and ends
		// with its goroutine.
		if unix.SchedSetaffinity(0, &was) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}

// shareCPUs confines all threads of this process to the CPUs of so many senders.
// A reader of what their packets export then takes its time from them.
func shareCPUs(senders int) (release func() error, err error) {
	cpus, err := UsableCPUs()
	if err != nil {
		return nil, err
	}
	if err := Confine(cpus[max(len(cpus)-senders, 0):]); err != nil {
		return nil, errors.Join(err, Confine(cpus))
	}
	return func() error { return Confine(cpus) }, nil
}

// goLast makes the other threads of its CPU go before this thread.
func goLast() (restore func(), err error) {
	const least, nice0 = 19, 20 // the call returns 20 less the niceness
	was, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, least)
	}
	if err != nil {
		return nil, fmt.Errorf("let other threads go first: %w", err)
	}
	return func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice0-was) }, nil
}
