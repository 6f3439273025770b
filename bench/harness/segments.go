// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/problem"
)

// routeSegments makes the node take segment routing headers (RFC 8754), and runs
// commands of ip that make its routes.
func (n *Node) routeSegments(commands []string) error {
	if len(commands) == 0 {
		return nil
	}
	return InNamespace(n.Namespace, func() error {
		for _, name := range []string{"net/ipv6/conf/all/seg6_enabled", "net/ipv6/conf/n0/seg6_enabled"} {
			if err := writeSysctl(name, "1"); err != nil {
				return problem.Wrap(
					fmt.Errorf("take segment routing headers: %w", err),
					"this benchmark needs a kernel with SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)",
				)
			}
		}
		return runIP(commands)
	})
}

// Search is a program that finds a packet's flow by comparing segment lists one by
// one.
type Search struct {
	Lists [][]netip.Addr // in the order of an SRH: the last segment first
	// Leaving says that it is where packets leave, not where they arrive.
	Leaving bool
	// Colour is set in the traffic class; 0: packets are only counted.
	Colour uint8
}

// search attaches the program.
func (n *Node) search(s Search) error {
	spec, err := loadLinear()
	if err != nil {
		return err
	}
	spec.Maps[linearMapLists].MaxEntries = uint32(len(s.Lists))
	for name, value := range map[string]any{linearVarFlows: uint32(len(s.Lists)), linearVarColour: s.Colour} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s of the linear search: %w", name, err)
		}
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load the linear search: %w", err)
	}
	defer c.Close() // the link keeps program and map
	for i, list := range s.Lists {
		entry := linearList{Count: uint32(len(list))}
		for j, sid := range list {
			octets := sid.As16()
			entry.Segments[j].Head, entry.Segments[j].Tail = binary.NativeEndian.Uint64(octets[:]), binary.NativeEndian.Uint64(octets[8:])
		}
		if err := c.Maps[linearMapLists].Put(uint32(i), entry); err != nil {
			return fmt.Errorf("enter a list of the linear search: %w", err)
		}
	}
	return InNamespace(n.Namespace, func() error {
		at := link.TCXOptions{Program: c.Programs[linearProgLinear], Interface: n.in.Attrs().Index, Attach: ebpf.AttachTCXIngress}
		if s.Leaving {
			at.Interface, at.Attach = n.out.Attrs().Index, ebpf.AttachTCXEgress
		}
		l, err := link.AttachTCX(at)
		if err != nil {
			return fmt.Errorf("attach the linear search: %w", err)
		}
		n.stops = append(n.stops, l.Close)
		return nil
	})
}

// Blocks visits what measured flows counted in a block.
type Blocks func(block uint64, visit func(datapath.BlockCounts))

// CurrentBlock is the block of now, for programs without an agent: they are not told the
// offset of their clock.
func CurrentBlock(length time.Duration) uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now)
	return uint64(now.Nano()) / uint64(length)
}

// CountedSince returns a function that says how many packets with a colour flows have
// counted since now. Blocks of this length are kept for some seconds.
func CountedSince(blocks Blocks, length time.Duration) func() uint64 {
	first := CurrentBlock(length) - 1
	sum := func() (packets uint64) {
		for block := first; block < first+4; block++ { // as many as are kept
			blocks(block, func(c datapath.BlockCounts) { packets += c.Packets })
		}
		return packets
	}
	before := sum()
	return func() uint64 { return sum() - before }
}

// watchCounting returns a function that checks that the flows of the line's first node
// have counted so many packets since, if the variant wants that.
func (v *Variant) watchCounting(l *line) func(packets uint64) error {
	if !v.Counted {
		return func(uint64) error { return nil }
	}
	n := l.Nodes[0]
	if n.measured == nil {
		return func(uint64) error { return errors.New("no flow is measured") }
	}
	counted := CountedSince(n.measured, n.block)
	return func(packets uint64) error {
		if got := counted(); got < packets {
			return fmt.Errorf("flows counted %d of %d packets", got, packets)
		}
		return nil
	}
}
