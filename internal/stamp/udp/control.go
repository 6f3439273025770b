// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readControl takes what the kernel reports about the IPv6 header, the interface and
// the time of arrival.
func (d *Datagram) readControl(control []byte) {
	for len(control) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return
		}
		control = rest
		switch {
		case header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			d.Received = (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
		case header.Level != unix.IPPROTO_IPV6 || len(data) < 4:
		case header.Type == unix.IPV6_HOPOPTS:
			d.HopByHop = data
		case header.Type == unix.IPV6_HOPLIMIT:
			d.HopLimit = uint8(binary.NativeEndian.Uint32(data))
		case header.Type == unix.IPV6_TCLASS:
			d.TrafficClass = uint8(binary.NativeEndian.Uint32(data))
		case header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
			d.Local, d.Interface = netip.AddrFrom16(info.Addr), info.Ifindex
		}
	}
}

// putControl writes the source address, the interface, the traffic class, the hop limit
// and the Hop-by-Hop header of a datagram to be sent, and returns the length.
func (d *Datagram) putControl(control []byte) int {
	n := 0
	if d.Local.IsValid() || d.Interface != 0 {
		var info unix.Inet6Pktinfo
		if d.Local.IsValid() {
			info.Addr = d.Local.As16()
		}
		info.Ifindex = d.Interface
		n += putMessage(control, unix.IPV6_PKTINFO, unsafe.Slice((*byte)(unsafe.Pointer(&info)), unix.SizeofInet6Pktinfo))
	}
	var class [4]byte
	binary.NativeEndian.PutUint32(class[:], uint32(d.TrafficClass))
	n += putMessage(control[n:], unix.IPV6_TCLASS, class[:])
	if d.SendHopLimit != 0 {
		binary.NativeEndian.PutUint32(class[:], uint32(d.SendHopLimit))
		n += putMessage(control[n:], unix.IPV6_HOPLIMIT, class[:])
	}
	if len(d.SendHopByHop) > 0 {
		n += putMessage(control[n:], unix.IPV6_HOPOPTS, d.SendHopByHop)
	}
	return n
}

// putMessage writes a control message of IPv6, and returns its length.
func putMessage(control []byte, kind int32, data []byte) int {
	space := unix.CmsgSpace(len(data))
	clear(control[:space])
	header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	header.Level, header.Type = unix.IPPROTO_IPV6, kind
	header.SetLen(unix.CmsgLen(len(data)))
	copy(control[unix.CmsgLen(0):], data)
	return space
}
