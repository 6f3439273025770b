// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tap reads whole frames, with the VLAN tag that the kernel keeps outside the
// data.
type tap struct{ fd, index int }

func (p *tap) open(name string) error {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
	p.index = device.Attrs().Index
	if p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	return errors.Join(
		unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}),
		unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: p.index}))
}

// next returns the next frame from a link-layer source address.
func (p *tap) next(source []byte) ([]byte, error) {
	frame, beside := make([]byte, 2000), make([]byte, 256)
	for {
		n, m, _, _, err := unix.Recvmsg(p.fd, frame, beside, 0)
		if err != nil {
			return nil, err
		}
		got := frame[:n]
		if n < 14 || !bytes.Equal(got[6:12], source) {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(beside[:m])
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			// struct tpacket_auxdata: status, two lengths, two offsets, TCI, TPID
			if d := message.Data; len(d) >= 20 && binary.NativeEndian.Uint32(d)&unix.TP_STATUS_VLAN_VALID != 0 {
				tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(d[18:]))
				tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(d[16:]))
				got = append(append(bytes.Clone(got[:12]), tag...), got[12:]...)
			}
		}
		return got, nil
	}
}
