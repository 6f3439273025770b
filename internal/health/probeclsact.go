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

// probeClsact attaches a program by clsact to the loopback interface of a network namespace of its own, which
// ends when the thread is back in the one of before.
func probeClsact() Support {
	result := make(chan Support)
	go func() {
		runtime.LockOSThread()
		support := clsactSupport(attachByClsact())
		if support.Err == nil || !errors.Is(support.Err, errNotBack) {
			runtime.UnlockOSThread() // else the thread runs nothing more
		}
		result <- support
	}()
	return <-result
}

// errNotBack is the error when the thread could not leave the probe's namespace.
var errNotBack = errors.New("leave the probe's network namespace")

// attachByClsact returns nil if a program could be attached.
func attachByClsact() (err error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	defer func() {
		if fault := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); fault != nil {
			err = fmt.Errorf("%w: %w", errNotBack, fault)
		}
	}()
	fd, err := loadProgram(progTypeSchedCLS, moveZeroToR0, exit)
	if err != nil {
		return fmt.Errorf("load a program: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	const loopback = 1 // in every network namespace
	if err := h.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: loopback, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}); err != nil {
		return fmt.Errorf("add clsact: %w", err)
	}
	if err := h.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: loopback, Parent: netlink.HANDLE_MIN_EGRESS, Priority: 1, Protocol: unix.ETH_P_ALL},
		Fd:          fd, Name: "probe", DirectAction: true,
	}); err != nil {
		return fmt.Errorf("add a filter: %w", err)
	}
	return nil
}

// clsactSupport reads the error: the kernel has no qdisc, or no kind of filter, of a name that it does not know.
func clsactSupport(err error) Support {
	if errors.Is(err, unix.ENOENT) {
		return Support{}
	}
	return answer("attach by clsact", err)
}
