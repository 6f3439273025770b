// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// From linux/xfrm.h: the default for packets without a policy, in the order
// in, forwarded, out.
const (
	messageDefaults = 0x28 // XFRM_MSG_GETDEFAULT
	defaultsLength  = 3
	defaultBlock    = 1
)

// hasPolicies reports whether IPsec policies affect forwarded packets: then only the
// stack may send.
func hasPolicies() (bool, error) {
	policies, err := netlink.XfrmPolicyList(netlink.FAMILY_V6)
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPERM):
		return false, nil // a kernel without IPsec, or without a way to configure it
	case err != nil && !errors.Is(err, netlink.ErrDumpInterrupted):
		return true, fmt.Errorf("read IPsec's policies: %w", err)
	}
	if slices.ContainsFunc(policies, func(p netlink.XfrmPolicy) bool { return p.Dir != netlink.XFRM_DIR_IN }) {
		return true, nil
	}
	request := nl.NewNetlinkRequest(messageDefaults, 0)
	request.AddRawData(make([]byte, defaultsLength+1))
	answers, err := request.Execute(unix.NETLINK_XFRM, messageDefaults)
	if errors.Is(err, unix.EINVAL) {
		return false, nil // before Linux 5.15 there are none
	}
	if err != nil {
		return true, fmt.Errorf("read IPsec's default policies: %w", err)
	}
	for _, a := range answers {
		if len(a) < defaultsLength || a[1] == defaultBlock || a[2] == defaultBlock {
			return true, nil
		}
	}
	return false, nil
}
