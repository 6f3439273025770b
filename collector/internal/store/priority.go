// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

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

// helped calls a function like niced, and helps the database with its queries.
func (s *Store) helped(nice int, do func() error) error {
	return s.helpers.help(func() error { return s.niced(nice, do) })
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

// lower gives the thread a nice value, unless it has a greater one. Threads that it starts keep it.
func lower(nice int) error {
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && 20-now >= nice { // the call gives 20 minus it
		return nil
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, nice)
}
