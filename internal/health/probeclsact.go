// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// probeClsact attaches a program by clsact to the loopback interface of a network namespace of its own.
func probeClsact() Support {
	fd, err := loadProgram(progTypeSchedCLS, moveZeroToR0, exit)
	if err != nil {
		return clsactSupport(fmt.Errorf("load a program: %w", err))
	}
	defer unix.Close(fd)
	return clsactSupport(inOwnNamespace(func(h *netlink.Handle) error { return attachByClsact(h, fd) }))
}

// attachByClsact returns nil if a program could be attached.
func attachByClsact(h *netlink.Handle, fd int) error {
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
