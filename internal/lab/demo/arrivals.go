// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

const (
	nextTCP    ioam.NextHeader = 6
	nextUDP    ioam.NextHeader = 17
	nextICMPv6 ioam.NextHeader = 58

	ethernetSize = 14
	ipv6Size     = 40
)

// flow identifies packets that belong together.
type flow struct {
	source, destination netip.Addr
	next                ioam.NextHeader
	from, to            uint16
	length              int // of each packet; 0 for TCP, whose segments merge on the way
}

// arrivals counts the packets that a capture has seen, by flow, and their IOAM.
type arrivals struct {
	lock      sync.Mutex
	packets   int
	ioamBytes int
	marked    int // packets with IOAM
	truncated int // packets that could not be scanned completely
	flows     map[flow]int
	traces    []lookFor
}

// lookFor is a trace that must not occur anywhere in a packet.
type lookFor struct {
	namespace uint16
	traceType uint32
}

func newArrivals(t *lab.Topology) *arrivals {
	a := &arrivals{flows: map[flow]int{}}
	for _, n := range t.Nodes {
		if n.Agent == nil || n.Agent.Settings == nil {
			continue
		}
		for _, e := range n.Agent.Settings.Encapsulations {
			for _, o := range e.Options {
				if o.Trace != nil {
					a.traces = append(a.traces, lookFor{uint16(o.Trace.Namespace), uint32(o.Trace.Type)})
				}
			}
		}
	}
	return a
}

// see counts one captured frame.
func (a *arrivals) see(p lab.Packet) {
	if p.Outgoing {
		return
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.packets++
	if p.Length > len(p.Data) {
		a.truncated++
	}
	found := lab.IOAMBytes(p.Data)
	if found == 0 {
		for _, t := range a.traces {
			if lab.TraceRemains(p.Data, t.namespace, t.traceType) {
				found = traceHeaderSize
				break
			}
		}
	}
	if found > 0 {
		a.ioamBytes += found
		a.marked++
	}
	if f, size, ok := readFlow(p); ok {
		if f.length == 0 {
			a.flows[f] += size
		} else {
			a.flows[f]++
		}
	}
}

// traceHeaderSize is the minimum size of a trace that is not in an extension header:
// the option's header (4) and the trace's (8).
const traceHeaderSize = 12

// readFlow reads a frame without extension headers, such as beta's.
func readFlow(p lab.Packet) (f flow, size int, ok bool) {
	if len(p.Data) < ethernetSize+ipv6Size || binary.BigEndian.Uint16(p.Data[12:]) != 0x86dd {
		return f, 0, false
	}
	packet := p.Data[ethernetSize:]
	source, _ := netip.AddrFromSlice(packet[8:24])
	destination, _ := netip.AddrFromSlice(packet[24:40])
	size = ipv6Size + int(binary.BigEndian.Uint16(packet[4:]))
	if size == ipv6Size { // RFC 2675, and Linux's BIG TCP
		size = p.Length - ethernetSize
	}
	f = flow{source: source, destination: destination, next: ioam.NextHeader(packet[6]), length: size}
	if f.next == nextTCP || f.next == nextUDP {
		if len(packet) < ipv6Size+4 {
			return f, 0, false
		}
		f.from, f.to = binary.BigEndian.Uint16(packet[40:]), binary.BigEndian.Uint16(packet[42:])
	}
	if f.next == nextTCP {
		f.length = 0
	}
	return f, size, true
}

// delivered counts the packets of each list that arrived. A ping or datagram
// needs a packet of its own flow and length; TCP segments need as many bytes of
// their connection.
func (a *arrivals) delivered(sent ...[]record.Packet) []int {
	a.lock.Lock()
	defer a.lock.Unlock()
	left := make(map[flow]int, len(a.flows))
	for f, n := range a.flows {
		left[f] = n
	}
	counts := make([]int, len(sent))
	for i, packets := range sent {
		counts[i] = removeArrived(left, packets)
	}
	return counts
}

// removeArrived removes packets from those that arrived, and counts the ones it found.
func removeArrived(left map[flow]int, packets []record.Packet) (count int) {
	for _, p := range packets {
		f := flow{source: p.Source, destination: p.Destination, next: p.NextHeader, length: p.Length}
		if p.SourcePort != nil && p.DestinationPort != nil {
			f.from, f.to = *p.SourcePort, *p.DestinationPort
		}
		cost := 1
		if p.NextHeader == nextTCP {
			f.length, cost = 0, p.Length
		}
		if left[f] >= cost {
			left[f] -= cost
			count++
		}
	}
	return count
}

// snapshot returns the counts so far.
func (a *arrivals) snapshot() (packets, marked, ioamBytes, truncated int) {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.packets, a.marked, a.ioamBytes, a.truncated
}
