// SPDX-License-Identifier: Apache-2.0

// Package socketdrops tells what sockets had no room for.
package socketdrops

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryDrops is the index of the drops in what SO_MEMINFO gives, and memoryLength
// its length (linux/sock_diag.h).
const (
	memoryDrops  = 8
	memoryLength = 9
)

// Total is how many datagrams found no room in a socket's buffer since it was
// made. It wraps. The error is one of a socket that is closed, or of a kernel
// before 4.12.
func Total(socket syscall.RawConn) (uint32, error) {
	var info [memoryLength]uint32
	length := uint32(unsafe.Sizeof(info))
	var errno syscall.Errno
	err := socket.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&length)), 0)
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	}
	return info[memoryDrops], nil
}
