// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"golang.org/x/sys/unix"
)

func writeSysctl(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
}

// connect makes a veth pair whose ends receive with NAPI. Zero queues are one for
// each CPU, so that one CPU's packets need no other CPU.
func connect(a netns.NsHandle, nameA string, b netns.NsHandle, nameB string, queues int) (linkA, linkB netlink.Link, err error) {
	handle, err := netlink.NewHandleAt(a, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer handle.Close()
	peer, err := netlink.NewHandleAt(b, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer peer.Close()
	if queues == 0 {
		queues = runtime.NumCPU()
	}
	veth := netlink.NewVeth(netlink.LinkAttrs{Name: nameA, MTU: 1500, TxQLen: -1, NumTxQueues: queues, NumRxQueues: queues})
	veth.PeerName, veth.PeerMTU, veth.PeerNamespace = nameB, 1500, netlink.NsFd(b)
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(queues), uint32(queues)
	if err := handle.LinkAdd(veth); err != nil {
		return nil, nil, problem.Wrap(
			fmt.Errorf("make the link %s - %s: %w", nameA, nameB, err),
			"Waymark needs the veth module here",
		)
	}
	if linkA, err = raise(handle, a, nameA); err != nil {
		return nil, nil, err
	}
	if linkB, err = raise(peer, b, nameB); err != nil {
		return nil, nil, err
	}
	return linkA, linkB, errors.Join(awaitCarrier(handle, nameA), awaitCarrier(peer, nameB))
}

// awaitCarrier waits until the interface has carrier, because without it there
// are no routes.
func awaitCarrier(handle *netlink.Handle, name string) error {
	for range 1000 {
		now, err := handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if now.Attrs().OperState == netlink.OperUp {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come up", name)
}

// raise brings an interface up and makes it receive with NAPI, in this order:
// only then can packets be redirected to its peer.
func raise(handle *netlink.Handle, ns netns.NsHandle, name string) (netlink.Link, error) {
	l, err := handle.LinkByName(name)
	if err == nil {
		err = handle.LinkSetUp(l)
	}
	if err != nil {
		return nil, fmt.Errorf("raise %s: %w", name, err)
	}
	if err := InNamespace(ns, func() error { return enableGRO(name) }); err != nil {
		return nil, fmt.Errorf("turn generic receive offload of %s on: %w", name, err)
	}
	return l, nil
}

// enableGRO is `ethtool -K NAME gro on`, which makes a veth receive with NAPI.
func enableGRO(name string) error {
	const setGRO = 0x2c // ETHTOOL_SGRO
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{setGRO, 1}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// AddInterfaces makes n interfaces in this thread's namespace, n0 and on, as veth
// pairs, and returns their indexes.
func AddInterfaces(n int) ([]model.IfIndex, error) {
	indexes := make([]model.IfIndex, 0, n)
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		if i%2 == 0 {
			pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: fmt.Sprintf("n%d", i+1)}
			pair.Name = name
			if err := netlink.LinkAdd(pair); err != nil {
				return nil, fmt.Errorf("make a pair of interfaces: %w", err)
			}
		}
		made, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("find interface %s: %w", name, err)
		}
		indexes = append(indexes, model.IfIndex(made.Attrs().Index))
	}
	return indexes, nil
}
