// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/binary"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

// segmented sends UDP as one large packet per call, which the kernel segments
// into datagrams of the same size where it must (UDP_SEGMENT).
type segmented struct {
	from   string
	size   int // of a datagram's payload
	each   int // datagrams per call
	calls  int
	number uint32
}

// datagram is the payload of a number; its bytes depend on number and position.
func (s *segmented) datagram(number uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, number)
	for len(b) < s.size {
		b = append(b, byte(len(b)>>8)^byte(len(b))^byte(number))
	}
	return b
}

// run sends to beta and checks that every datagram arrives, in order.
func (s *segmented) run(t *testing.T, l *lab.Lab) {
	t.Helper()
	destination, _ := l.Topology().Address("beta")
	to := &net.UDPAddr{IP: destination.AsSlice(), Port: 9000}
	var receiver, sender *net.UDPConn
	open := func(node string, f func() error) {
		if err := e2e.Bind(l.Node(node), f); err != nil {
			t.Fatal(err)
		}
	}
	open("beta", func() (err error) { receiver, err = net.ListenUDP("udp6", to); return err })
	defer receiver.Close()
	if err := e2e.Control(receiver, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		t.Fatal(err)
	}
	open(s.from, func() (err error) { sender, err = net.DialUDP("udp6", nil, to); return err })
	defer sender.Close()
	if err := e2e.Control(sender, unix.SOL_UDP, unix.UDP_SEGMENT, s.size); err != nil {
		t.Fatal(err)
	}
	for range s.calls {
		var all []byte
		for range s.each {
			all = append(all, s.datagram(s.number)...)
			s.number++
		}
		if _, err := sender.Write(all); err != nil {
			t.Fatal(err)
		}
	}
	if err := receiver.SetReadDeadline(time.Now().Add(patience.Of(3 * time.Second))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<16)
	for number := range s.number {
		n, err := receiver.Read(got)
		if err != nil {
			t.Fatalf("datagram %d of %d: %v", number, s.number, err)
		}
		if !bytes.Equal(got[:n], s.datagram(number)) {
			t.Fatalf("datagram %d: %d bytes arrived, want %d: %.20x…", number, n, s.size, got[:n])
		}
	}
}

// checkSums makes tshark verify the checksum of every TCP and UDP packet to beta. A stream of
// random bytes may look like a message of many megabytes: tshark does not put it together.
func checkSums(t *testing.T, path string, least int) {
	t.Helper()
	lines := tshark.Run(t, path, "ipv6.dst == 2001:db8:2::2 && (tcp || udp)", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-o", "tcp.desegment_tcp_streams:FALSE", "-e", "frame.number", "-e", "tcp.checksum.status", "-e", "udp.checksum.status")
	if len(lines) < least {
		t.Errorf("tshark found %d TCP and UDP packets, want at least %d", len(lines), least)
	}
	for _, line := range lines {
		frame, status, _ := strings.Cut(line, "\t")
		if status = strings.TrimSpace(status); status != "1" { // 0 bad, 1 good, 2 not verified
			whole, _ := exec.Command("tshark", "-r", path, "-Y", "frame.number == "+frame, "-V", "-x", "-o", "tcp.check_checksum:TRUE").
				CombinedOutput()
			t.Fatalf("frame %s: the status of the checksum is %q, want 1, good\n%s", frame, status, whole)
		}
	}
}
