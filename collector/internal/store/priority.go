// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Priorities of threads, as nice values. What is not received in time is lost, and a question only takes longer.
const (
	niceRollup   = 5
	niceQuestion = 10
	nicePacking  = 19
)

// AsQuestion calls a function at the priority of questions, on a thread of its own.
func (s *Store) AsQuestion(do func() error) error { return s.niced(niceQuestion, do) }

// niced calls a function on a thread with a nice value, and logs a panic in it.
func (s *Store) niced(nice int, do func() error) error {
	err := niced(nice, do)
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

// niced calls a function on a thread with a nice value. The thread ends with it: a priority that was lowered cannot be
// raised by everybody. Threads that the function starts keep its priority.
func niced(nice int, do func() error) error {
	done := make(chan error)
	go func() {
		var err error
		defer func() {
			if fault := recover(); fault != nil {
				err = &faulty{fmt.Sprint(fault), debug.Stack()}
			}
			done <- err
		}()
		runtime.LockOSThread()
		if now, fault := unix.Getpriority(unix.PRIO_PROCESS, 0); fault == nil && 20-now < nice { // the call gives 20 minus it
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice) // else it is as fast as the others
		}
		err = do()
	}()
	return <-done
}
