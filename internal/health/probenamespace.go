// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// loopback is the index of the loopback interface in every network namespace.
const loopback = 1

// inOwnNamespace runs a probe in a network namespace of its own, which ends when the thread is back in the one
// of before.
func inOwnNamespace(probe func(*netlink.Handle) error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unshared(probe)
		if !errors.Is(err, errNotBack) {
			runtime.UnlockOSThread() // else the thread runs nothing more
		}
		result <- err
	}()
	return <-result
}

// errNotBack is the error when the thread could not leave the probe's namespace.
var errNotBack = errors.New("leave the probe's network namespace")

// unshared runs a probe on this thread in a new network namespace.
func unshared(probe func(*netlink.Handle) error) (err error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	defer func() {
		if fault := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); fault != nil {
			err = fmt.Errorf("%w: %w", errNotBack, fault)
		}
	}()
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	return probe(h)
}
