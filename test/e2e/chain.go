// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/craft"
)

// Chain is a router between two hosts; what it does with IOAM is up to the test.
const Chain = `
name: chain
permanent-neighbours: true
nodes: [{name: left, routes: [{to: "::/0", via: 2001:db8:1::1}]}, {name: router}, {name: right, routes: [{to: "::/0", via: 2001:db8:2::1}]}]
links:
  - ends:
      - {node: left, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: router, interface: eth0, addresses: 2001:db8:1::1/64}
  - ends:
      - {node: router, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: right, interface: eth0, addresses: 2001:db8:2::2/64}
`

var (
	LeftAddress  = netip.MustParseAddr("2001:db8:1::2")
	RightAddress = netip.MustParseAddr("2001:db8:2::2")
)

// Packet is an IPv6 packet whose flow label identifies it.
func Packet(id int, hopLimit uint8, extension, payload []byte) []byte {
	h := craft.IPv6{Label: uint32(id), HopLimit: hopLimit, Source: LeftAddress, Destination: RightAddress}
	return h.With(extension, payload)
}

// Exchange sends packets from left's interface and returns the IPv6 packets that
// reached right, by flow label.
func Exchange(t *testing.T, l *lab.Lab, packets [][]byte) map[int][]byte {
	t.Helper()
	var mu sync.Mutex
	got := make(map[int][]byte)
	capture, err := l.Capture("right", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing || len(p.Data) < 54 || binary.BigEndian.Uint16(p.Data[12:]) != 0x86dd {
			return
		}
		if source, _ := netip.AddrFromSlice(p.Data[22:38]); source != LeftAddress {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got[int(binary.BigEndian.Uint32(p.Data[14:])&0xfffff)] = append([]byte(nil), p.Data[14:]...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	var destination []byte
	if err := l.Node("router").Do(func() error {
		device, err := netlink.LinkByName("eth0")
		if err == nil {
			destination = device.Attrs().HardwareAddr
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// The last packet is a plain marker: once it has arrived, all have passed.
	const marker = 0xfffff
	last := Packet(marker, 64, nil, []byte("end of the test"))
	last[6] = 59
	err = l.Node("left").Do(func() error { return Inject("eth0", destination, append(packets, last)) })
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience.Of(5 * time.Second)); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		mu.Lock()
		_, done := got[marker]
		mu.Unlock()
		if done {
			break
		}
	}
	if _, err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, done := got[marker]; !done {
		t.Fatal("the marker after the packets did not arrive")
	}
	delete(got, marker)
	return got
}

// Inject sends packets unchanged, in the caller's namespace.
func Inject(name string, destination []byte, packets [][]byte) error {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: device.Attrs().Index, Halen: 6}
	for _, p := range packets {
		if err := unix.Sendto(fd, craft.Ethernet(destination, device.Attrs().HardwareAddr, p), 0, to); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}
