// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Nice values of threads. Reception has 0: a postcard that is not received in time is lost, but a question that waits is
// only answered later.
const (
	niceRollup   = 5
	niceQuestion = 10
	nicePacking  = 19
)

// niced calls a function at a nice value, and logs a panic in it, and once that priorities cannot be lowered.
func (s *Store) niced(nice int, do func() error) error {
	err := onThread(func() error {
		if fault := lower(nice); fault != nil {
			s.priorities.Do(func() {
				s.options.Log(slog.LevelWarn, problem.New(
					"questions have the priority of reception: "+fault.Error(), "allow the system call setpriority",
				).Error())
			})
		}
		return do()
	})
	if of, ok := errors.AsType[*faulty](err); ok {
		s.options.Log(slog.LevelError, of.Error()+"\n"+string(of.stack))
	}
	return err
}

// faulty is a panic in a function.
type faulty struct {
	text  string
	stack []byte
}

func (f *faulty) Error() string { return "an error of the program: " + f.text }

// onThread calls a function on a thread of its own, whose priority it may lower. The thread ends with it: not everybody
// may raise a priority that was lowered.
func onThread(do func() error) error {
	done := make(chan error)
	go func() {
		err := errors.New("it did not end")
		defer func() {
			if fault := recover(); fault != nil {
				err = &faulty{fmt.Sprint(fault), debug.Stack()}
			}
			done <- err
		}()
		runtime.LockOSThread()
		err = do()
	}()
	return <-done
}

// workers are the threads of a database. They help with questions, and with checkpoints, which a commit waits for: then
// they have the priority of reception, if the process may raise a priority (RLIMIT_NICE).
type workers struct {
	mu      sync.Mutex
	threads []int
	hurried int // calls of hurry that have not ended
}

// threadsAt are the threads of the process that have a nice value.
func threadsAt(nice int) (list []int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil // then they keep the value that they have
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && 20-now == nice { // else it has ended
			list = append(list, id)
		}
	}
	return list
}

// opened calls a function that opens a database, whose threads get the nice value of questions.
func (w *workers) opened(open func() error) error {
	before := threadsAt(niceQuestion)
	return onThread(func() error {
		_ = lower(niceQuestion) // the first question says why it fails
		err := open()
		self := unix.Gettid()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.threads = slices.DeleteFunc(threadsAt(niceQuestion), func(id int) bool { return id == self || slices.Contains(before, id) })
		return err
	})
}

// closed forgets the threads of a database before it is closed: others may get their numbers.
func (w *workers) closed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.threads = nil
}

// hurry calls a function for which reception waits.
func (w *workers) hurry(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && now < 20 && unix.Setpriority(unix.PRIO_PROCESS, 0, 0) == nil {
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-now) }()
	}
	w.count(1)
	defer w.count(-1)
	return do()
}

// count counts functions that hurry, and gives the threads their priority.
func (w *workers) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nice := 0
	if w.hurried += n; w.hurried == 0 {
		nice = niceQuestion
	} else if w.hurried > 1 || n < 0 {
		return
	}
	for _, id := range w.threads {
		_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice)
	}
}

// lower gives the thread a nice value, unless it has a greater one. Threads that it starts keep it.
func lower(nice int) error {
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && 20-now >= nice { // the call gives 20 minus it
		return nil
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, nice)
}
