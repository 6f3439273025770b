// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// useNeighbours reports to the kernel which neighbours are in use, so that it
// confirms them as if it had sent the packets itself (RFC 4861 §7.3).
func (w *watcher) useNeighbours() {
	used, err := w.plane.Neighbours(usedWithin)
	if err != nil {
		w.log.Warn("the neighbours in use are not known", "error", err)
		return
	}
	if len(used) == 0 {
		return
	}
	// if the table changes meanwhile, the rest is found a second later
	known, err := netlink.NeighList(0, unix.AF_INET6)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		w.log.Warn("the kernel's neighbours are not known", "error", err)
		return
	}
	for _, n := range idle(used, known) {
		if err := netlink.NeighSet(&n); err != nil {
			w.log.Debug("a neighbour cannot be kept", "address", n.IP, "error", err)
		}
	}
}

// idle returns requests to use the neighbours that are in use but that the kernel
// considers idle (STALE). Only these may be requested: NTF_USE would make a
// permanent neighbour forget its address.
func idle(used []datapath.Neighbour, known []netlink.Neigh) (requests []netlink.Neigh) {
	wanted := make(map[datapath.Neighbour]bool, len(used))
	for _, n := range used {
		wanted[n] = true
	}
	for _, n := range known {
		address, ok := netip.AddrFromSlice(n.IP)
		if !ok || n.State != netlink.NUD_STALE || !wanted[datapath.Neighbour{Address: address, Interface: model.IfIndex(n.LinkIndex)}] {
			continue
		}
		requests = append(requests, netlink.Neigh{
			LinkIndex: n.LinkIndex, Family: unix.AF_INET6, IP: n.IP,
			// flags that are missing here would be cleared
			Flags: netlink.NTF_USE | n.Flags&netlink.NTF_EXT_LEARNED, FlagsExt: n.FlagsExt & netlink.NTF_EXT_MANAGED,
		})
	}
	return requests
}
