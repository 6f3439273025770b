// SPDX-License-Identifier: Apache-2.0

package kernelevents

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/socketdrops"
)

// socket is a netlink socket that reads into the caller's buffer and reports what
// it dropped; the netlink library's socket does neither.
type socket struct {
	file *os.File
	raw  syscall.RawConn
}

// subscribe makes a socket in a multicast group.
func subscribe(group uint32, buffer int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "netlink")}
	if err := prepare(fd, group, buffer); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

func prepare(fd int, group uint32, buffer int) error {
	// The kernel doubles the number, for its own overhead.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer/2); err != nil {
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer/2); err != nil {
			return fmt.Errorf("set the buffer of the kernel's events: %w", err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind a netlink socket: %w", err)
	}
	err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group))
	if errors.Is(err, unix.EPERM) {
		return ErrRight
	}
	if err != nil {
		return fmt.Errorf("subscribe to the kernel's events: %w", err)
	}
	return nil
}

// receive waits for a datagram from the kernel. A datagram longer than b is
// truncated.
func (s *socket) receive(b []byte) (n int, err error) {
	for {
		var from unix.Sockaddr
		fault := s.raw.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), b, 0)
			return !errors.Is(err, unix.EAGAIN)
		})
		if fault != nil {
			return 0, fault
		}
		// Other processes may send to the socket, too, with any content.
		if sender, ok := from.(*unix.SockaddrNetlink); err != nil || ok && sender.Pid == 0 {
			return n, err
		}
	}
}

// interrupt ends receive.
func (s *socket) interrupt() { _ = s.file.SetReadDeadline(time.Now()) }

func (s *socket) close() { _ = s.file.Close() }

// dropped is how many datagrams found no room since the socket was made.
func (s *socket) dropped() (uint32, error) { return socketdrops.Total(s.raw) }
