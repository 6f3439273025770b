// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// Cookie is the number of the calling thread's network namespace.
func Cookie() (uint64, error) {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(s)
	cookie, err := unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return cookie, os.NewSyscallError("find the network namespace's cookie", err)
}

// Discipline is what the kernel says of the queue of a device.
type Discipline struct {
	Kind    string
	Dropped uint64 // packets, since the kernel made the queue
	Waiting uint64 // packets in it
}

// ReadsOurs reports whether a queue reads what stands in packets that are timed, so that they must not be:
// etf and taprio send a packet at its time, and drop it if that is not ahead; gred chooses a queue by
// tc_index.
func (d Discipline) ReadsOurs() bool {
	return slices.Contains([]string{"etf", "taprio", "gred"}, d.Kind)
}

// Disciplines are those of all devices of the calling thread's network namespace.
func Disciplines() (map[model.IfIndex]Discipline, error) {
	list, err := netlink.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	all := make(map[model.IfIndex]Discipline)
	for _, each := range list {
		a := each.Attrs()
		at := model.IfIndex(a.LinkIndex)
		d := all[at]
		// A queue below the root counts its drops for those above it, too.
		if a.Parent == netlink.HANDLE_ROOT {
			d.Kind = each.Type()
			if a.Statistics != nil && a.Statistics.Queue != nil {
				d.Dropped, d.Waiting = uint64(a.Statistics.Queue.Drops), uint64(a.Statistics.Queue.Qlen)
			}
		}
		if below := (Discipline{Kind: each.Type()}); below.ReadsOurs() {
			d.Kind = below.Kind
		}
		all[at] = d
	}
	return all, nil
}
