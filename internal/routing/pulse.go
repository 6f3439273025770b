// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pulse is one of the kernel's periodic timers. A Go timer, like each system call
// that the runtime tracks, would wake the runtime's monitoring thread.
type pulse struct {
	file *os.File
	wait syscall.RawConn
}

func newPulse(period time.Duration) (*pulse, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	p := &pulse{file: os.NewFile(uintptr(fd), "pulse")}
	each := unix.NsecToTimespec(period.Nanoseconds())
	err = unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: each, Value: each}, nil)
	if err == nil {
		p.wait, err = p.file.SyscallConn()
	}
	if err != nil {
		p.file.Close()
		return nil, fmt.Errorf("start a timer: %w", err)
	}
	return p, nil
}

// next waits for the next beat; closing the file ends it.
func (p *pulse) next() error {
	var missed [8]byte
	var fault error
	err := p.wait.Read(func(fd uintptr) (done bool) {
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&missed)), uintptr(len(missed)))
		switch errno {
		case unix.EAGAIN, unix.EINTR:
			return false
		case 0:
		default:
			fault = errno
		}
		return true
	})
	if err == nil && fault != nil {
		err = fmt.Errorf("read a timer: %w", fault)
	}
	return err
}

// beat reports to the data plane that changes are watched, in a goroutine that ends with
// the context. It does not report while the watcher handles a change.
func (w *watcher) beat(ctx context.Context) error {
	pulse, err := newPulse(beatPeriod)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { pulse.file.Close() }) // nothing can be lost
	go func() {
		for {
			err := pulse.next()
			if ctx.Err() != nil {
				return
			}
			if err == nil && w.busy.TryLock() {
				err = w.plane.Beat()
				w.busy.Unlock()
			}
			if err != nil {
				w.failed <- err
				return
			}
		}
	}()
	return nil
}
