// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unpolled is a socket that the runtime does not watch: each datagram that comes to a watched one
// wakes a thread, also if no goroutine waits. One goroutine uses it.
type unpolled struct {
	fd     int
	closed bool
}

// detach takes a socket away from the runtime.
func detach(raw syscall.RawConn) (*unpolled, error) {
	u := &unpolled{}
	var err error
	fault := raw.Control(func(fd uintptr) { u.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if fault != nil {
		return nil, fault
	}
	return u, err
}

func (u *unpolled) Control(f func(fd uintptr)) error {
	if u.closed {
		return net.ErrClosed
	}
	f(uintptr(u.fd))
	return nil
}

func (u *unpolled) Read(done func(fd uintptr) bool) error  { return u.await(done, unix.POLLIN) }
func (u *unpolled) Write(done func(fd uintptr) bool) error { return u.await(done, unix.POLLOUT) }

// await waits in the kernel until a function succeeds.
func (u *unpolled) await(done func(fd uintptr) bool, events int16) error {
	for {
		switch {
		case u.closed:
			return net.ErrClosed
		case done(uintptr(u.fd)):
			return nil
		}
		list := [1]unix.PollFd{{Fd: int32(u.fd), Events: events}}
		if _, err := unix.Poll(list[:], -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (u *unpolled) Close() error {
	if u.closed {
		return net.ErrClosed
	}
	u.closed = true
	return unix.Close(u.fd)
}
