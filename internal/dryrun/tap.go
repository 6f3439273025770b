// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/reference"
)

// tapped is a copy of a packet.
type tapped struct {
	data     []byte // from the link layer on
	link     reference.Link
	index    model.IfIndex
	outgoing bool
	gsoSize  uint32
}

// taps are packet sockets, one for each interface.
type taps []unix.PollFd

// Sizes of a socket's buffer and of the largest packet with offload (BIG TCP).
const (
	tapBuffer = 4 << 20
	maxPacket = 512<<10 + 256
)

// vnetLength is the length of struct virtio_net_hdr, which comes before each packet.
const vnetLength = 10

func openTaps(interfaces []model.Interface) (taps, error) {
	var list taps
	for _, in := range interfaces {
		fd, err := openTap(int(in.Index))
		if err != nil {
			list.close()
			return nil, tapFault(in.Name, err)
		}
		list = append(list, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return list, nil
}

// tapFault is the error of an interface whose packets cannot be read.
func tapFault(name string, err error) error {
	err = fmt.Errorf("read the packets of %s: %w", name, err)
	if errors.Is(err, fs.ErrPermission) {
		return problem.Wrap(err, "run it as root")
	}
	return err
}

func openTap(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	const allInNetworkOrder = unix.ETH_P_ALL << 8
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allInNetworkOrder, Ifindex: index}),
	)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (t taps) close() {
	for _, s := range t {
		unix.Close(int(s.Fd))
	}
}

// unread is how many packets the kernel could not keep until they were read.
func (t taps) unread() (n uint64, err error) {
	for _, s := range t {
		stats, statErr := unix.GetsockoptTpacketStats(int(s.Fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		n += uint64(stats.Drops)
	}
	return n, err
}

// read takes packets until a time, at most perSecond in each second.
func (t taps) read(ctx context.Context, until time.Time, consume func(tapped)) error {
	const beat = 100 * time.Millisecond
	buffer := make([]byte, maxPacket)
	for ctx.Err() == nil && time.Now().Before(until) {
		ends := time.Now().Add(beat)
		if _, err := unix.Poll(t, int(min(beat, time.Until(until)).Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for packets: %w", err)
		}
		left := perSecond / int(time.Second/beat)
		for i := range t {
			for left > 0 {
				more, err := receive(int(t[i].Fd), buffer, consume)
				if err != nil {
					return err
				}
				if !more {
					break
				}
				left--
			}
		}
		if left == 0 {
			time.Sleep(time.Until(ends))
		}
	}
	return nil
}

// receive takes one packet, if one has come.
func receive(fd int, buffer []byte, consume func(tapped)) (more bool, err error) {
	n, from, err := unix.Recvfrom(fd, buffer, 0)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN): // the interface is down for now
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read packets: %w", err)
	}
	at, ok := from.(*unix.SockaddrLinklayer)
	if !ok || n < vnetLength {
		return true, nil
	}
	p := tapped{data: buffer[vnetLength:n], index: model.IfIndex(at.Ifindex), outgoing: at.Pkttype == unix.PACKET_OUTGOING}
	if buffer[1] != 0 { // gso_type
		p.gsoSize = uint32(binary.NativeEndian.Uint16(buffer[4:]))
	}
	if at.Hatype != unix.ARPHRD_ETHER && at.Hatype != unix.ARPHRD_LOOPBACK {
		p.link = reference.LinkNone
	}
	consume(p)
	return true, nil
}
