// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// The kernel's generic netlink family "netdev" (Linux 6.3), as its
// specification numbers it.
const (
	netdevFamily        = "netdev"
	netdevGroup         = "mgmt"
	netdevVersion       = 1
	commandDeviceGet    = 1
	attributeIndex      = 1
	attributeFeatures   = 3
	featureTransmit     = 1 << 2 // the driver can send what XDP redirects to it
	genericHeaderLength = 4
)

// genericHeader is command, version, and two bytes that must be 0. The library's
// own header is shorter, and sends whatever follows it in memory.
type genericHeader [genericHeaderLength]byte

func (h genericHeader) Len() int          { return len(h) }
func (h genericHeader) Serialize() []byte { return h[:] }

// subscribeDevices subscribes to changes of devices' XDP features.
func subscribeDevices() (*nl.NetlinkSocket, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return nil, fmt.Errorf("the kernel does not report the features of devices (needs Linux 6.3): %w", err)
	}
	for _, group := range family.Groups {
		if group.Name != netdevGroup {
			continue
		}
		s, err := nl.Subscribe(unix.NETLINK_GENERIC)
		if err != nil {
			return nil, err
		}
		if err := unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group.ID)); err != nil {
			s.Close()
			return nil, err
		}
		return s, nil
	}
	return nil, fmt.Errorf("the kernel's family %s has no group %s", netdevFamily, netdevGroup)
}

// SendingDevices are the devices of this namespace that can now send what XDP
// redirects to them. A veth can while its other end receives in batches (NAPI).
func SendingDevices() ([]model.IfIndex, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return nil, fmt.Errorf("the kernel does not report the features of devices (needs Linux 6.3): %w", err)
	}
	socket, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("request the features of devices: %w", err)
	}
	defer socket.Close()
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	request.AddData(genericHeader{commandDeviceGet, netdevVersion})
	if err := socket.Send(request); err != nil {
		return nil, fmt.Errorf("request the features of devices: %w", err)
	}
	if err := socket.SetReceiveTimeout(&unix.Timeval{Sec: 1}); err != nil {
		return nil, err
	}
	return readDevices(socket)
}

// readDevices reads a dump to its end. The family does not mark its messages as
// parts of a dump, so the library's own reader would stop after the first one.
func readDevices(socket *nl.NetlinkSocket) (out []model.IfIndex, err error) {
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			return nil, fmt.Errorf("read the features of devices: %w", err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("the kernel refuses to report the features of devices")
			}
			if index, sends := parseDevice(m.Data); sends {
				out = append(out, index)
			}
		}
	}
}

func parseDevice(message []byte) (index model.IfIndex, sends bool) {
	if len(message) < genericHeaderLength {
		return 0, false
	}
	whole := netlinkattr.Each(message[genericHeaderLength:], func(kind uint16, value []byte) {
		switch {
		case kind == attributeIndex && len(value) == 4:
			index = model.IfIndex(binary.NativeEndian.Uint32(value))
		case kind == attributeFeatures && len(value) == 8:
			sends = binary.NativeEndian.Uint64(value)&featureTransmit != 0
		}
	})
	return index, sends && whole && index != 0
}
