// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"net"
	"net/netip"
)

// localAddresses are this node's addresses, read again when they are old.
type localAddresses struct {
	list   map[netip.Addr]bool
	onLink map[uint32]map[netip.Addr]bool // of single interfaces, once they are asked for
	at     int64
}

// localPeriod is how long addresses are valid, in nanoseconds.
const localPeriod = 5_000_000_000

// has reports whether the node has an address.
func (l *localAddresses) has(a netip.Addr, now int64) bool {
	l.refresh(now)
	return l.list[a.Unmap()]
}

// hasOn reports whether an interface has an address; only the link-local ones are not
// unique within the node.
func (l *localAddresses) hasOn(link uint32, a netip.Addr, now int64) bool {
	l.refresh(now)
	list, known := l.onLink[link]
	if !known {
		var addresses []net.Addr
		if i, err := net.InterfaceByIndex(int(link)); err == nil {
			addresses, _ = i.Addrs()
		}
		list = toSet(addresses)
		l.onLink[link] = list
	}
	return list[a]
}

func (l *localAddresses) refresh(now int64) {
	if l.list == nil || now-l.at >= localPeriod {
		addresses, _ := net.InterfaceAddrs() // without them, no address is ours
		l.at, l.list, l.onLink = now, toSet(addresses), make(map[uint32]map[netip.Addr]bool)
	}
}

func toSet(addresses []net.Addr) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool)
	for _, one := range addresses {
		if n, ok := one.(*net.IPNet); ok {
			if address, ok := netip.AddrFromSlice(n.IP); ok {
				set[address.Unmap()] = true
			}
		}
	}
	return set
}
