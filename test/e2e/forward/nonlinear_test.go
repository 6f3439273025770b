// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// sendBeyond sends a frame whose skb has only the first `linear` bytes in its
// linear part, where programs in tc read. Shorter frames than a page are linear.
func (p *packetPort) sendBeyond(frame []byte, linear int) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return err
	}
	header := make([]byte, 10) // struct virtio_net_hdr
	binary.NativeEndian.PutUint16(header[2:], uint16(linear))
	return unix.Sendto(fd, append(header, frame...), 0, p.to)
}

// Rules that ask for ports find them, or the packet goes to the stack, where the
// program reads the trace but not the ports after it.
func TestPortsOutOfReach(t *testing.T) {
	t.Parallel()
	w := raiseTwins(t, "tcx")
	e2e.MustIn(t, w.lab, "fast", "ioam", "namespace", "add", "123")
	for _, port := range []string{"eth0", "eth1", "eth2"} {
		w.both(t, "link set "+port+" mtu 9000")
	}
	w.both(t, toFirst, toSecond, "rule add pref 100 ipproto udp dport 5353 lookup 100")
	e2e.AwaitRouting(t, w.lab) // on a busy machine, the agent hears of the last change later than of the first
	trace := binary.BigEndian.AppendUint32([]byte{0x31, 18, 0, 0, 0, 123, 0x10, 2, 0xc0, 0, 0, 0}, 0)
	header := craft.Options(craft.UDP, 2, append(trace, 0, 0, 0, 0))
	for _, toPort := range []uint16{5353, 9} {
		body := append(header[:len(header):len(header)], datagram(4000, toPort, 6000)...)
		p := w.newTrial("2001:db8:5::1", "2001:db8:a::1", 0, craft.HopByHop, body)
		for router, port := range w.ports {
			err := w.lab.Node("sender").Do(func() error { return port.sendBeyond(p.frame, 14+40+len(header)) })
			if err != nil {
				t.Fatalf("send to %s: %v", router, err)
			}
		}
		var left [2]string // by router: where it left, and whether it was filled
		e2e.Await(t, "both packets", 3*time.Second, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			for i, router := range []string{"plain", "fast"} {
				left[i] = w.results(router, []trial{p})[0]
			}
			return left[0] != "" && left[1] != ""
		})
		plain, _, _ := strings.Cut(left[0], " ")
		fast, text, _ := strings.Cut(left[1], " ")
		frame, err := hex.DecodeString(text)
		if err != nil || len(frame) < 14+40+len(header) {
			t.Fatalf("the fast router sent %q", left[1])
		}
		if fast != plain {
			t.Errorf("to port %d, the packet left by %s, and by %s from the kernel", toPort, fast, plain)
		}
		if remaining := frame[14+40+11]; remaining != 0 {
			t.Errorf("the trace has room for %d words; it was not filled", remaining)
		}
	}
}
