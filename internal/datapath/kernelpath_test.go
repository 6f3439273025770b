// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

// linkAddress is that of every interface: frames pass from router to router as they are.
var linkAddress = []byte{2, 0, 0, 0, 0, 1}

// kernelRouter is a router that has the kernel's segment routing alone: a test puts a frame in,
// and gets the one that leaves. eth0 and eth1 are its two ends.
type kernelRouter struct{ in, out int }

// raiseRouter raises one in a namespace of its own, with these commands of ip.
func raiseRouter(t *testing.T, commands ...string) (r kernelRouter) {
	t.Helper()
	err := testnet.New(t).Do(func() (err error) {
		for _, name := range []string{"eth0", "eth1"} {
			testnet.Run(t, "ip link add "+name+" address 02:00:00:00:00:01 type veth peer name x"+name)
			testnet.Set(t, "ipv6/conf/x"+name+"/disable_ipv6", "1")
			testnet.Run(t, "ip link set x"+name+" up; ip link set "+name+" up")
		}
		testnet.Set(t, "ipv6/conf/all/forwarding", "1")
		for _, name := range []string{"all", "eth0", "eth1"} {
			testnet.Set(t, "ipv6/conf/"+name+"/seg6_enabled", "1")
		}
		testnet.Run(t, "ip -6 addr add 2001:db8:99::1/64 dev eth1 nodad")
		testnet.Run(t, "ip -6 neigh add 2001:db8:99::2 lladdr 02:00:00:00:00:01 dev eth1 nud permanent")
		for _, command := range commands {
			testnet.Run(t, "ip "+command)
		}
		if r.in, err = openLink("xeth0"); err == nil {
			r.out, err = openLink("xeth1")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(r.in); unix.Close(r.out) })
	return r
}

// openLink opens a socket for IPv6 frames at a link of the caller's namespace.
func openLink(name string) (int, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return -1, err
	}
	const ipv6 = 0xdd86 // ETH_P_IPV6, in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, ipv6)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ipv6, Ifindex: device.Index}); err != nil {
		return -1, err
	}
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
}

// pass puts a frame in, and returns the one that leaves, which ends as it does; nil: none does.
func (r kernelRouter) pass(t *testing.T, frame []byte) []byte {
	t.Helper()
	end := frame[len(frame)-16:]
	frame = slices.Concat(linkAddress, frame[6:])
	if _, err := unix.Write(r.in, frame); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2048)
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		n, err := unix.Read(r.out, buffer)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if n > 0 && bytes.HasSuffix(buffer[:n], end) {
			return buffer[:n]
		}
	}
	return nil
}
