// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"fmt"
	"maps"
	"slices"
)

// Count is what a program executed for a packet.
type Count struct {
	Verdict      uint32         `json:"verdict"`
	Packet       []byte         `json:"packet"`       // as the program left it
	Instructions int            `json:"instructions"` // of the program
	Files        map[string]int `json:"files"`        // the same, by the source file that they are of
	Lines        map[Line]int   `json:"-"`            // and by the line
	Calls        int            `json:"calls"`        // of functions of the program
	Helpers      map[string]int `json:"helpers"`      // calls of functions of the kernel, by name
	Atomics      int            `json:"atomics"`      // instructions that lock a cache line
	PacketLines  int            `json:"packet_lines"` // cache lines of the packet
	MapLines     int            `json:"map_lines"`    // cache lines of maps, without what the kernel's functions read
}

func newCount() Count {
	return Count{Files: make(map[string]int), Lines: make(map[Line]int), Helpers: make(map[string]int)}
}

func (c *Count) addLine(l Line) {
	c.Files[l.File]++
	c.Lines[l]++
}

// Called is how many functions of the kernel were called.
func (c Count) Called() (n int) {
	for _, each := range c.Helpers {
		n += each
	}
	return n
}

// HelperNames are those that were called, sorted.
func (c Count) HelperNames() []string { return slices.Sorted(maps.Keys(c.Helpers)) }

const headroom = 256 // bytes before a packet, as drivers leave them

// packet is a frame in its buffer, and what the kernel tells programs about it.
type packet struct {
	address    uint64 // of the buffer
	context    uint64
	start, end uint32 // in the buffer
	bytes      []byte
}

func (p *packet) first() uint64  { return p.address + uint64(p.start) }
func (p *packet) length() uint64 { return uint64(p.end - p.start) }

// move moves the first byte; false: there is no room.
func (p *packet) move(by int32) bool {
	start := int64(p.start) + int64(by)
	if start < 0 || start+14 > int64(p.end) {
		return false
	}
	p.start = uint32(start)
	return true
}

// publish writes into the context where the packet is.
func (p *packet) publish(m *machine) error {
	l := m.program.layout
	for offset, value := range map[uint32]uint64{
		l.data: p.first(), l.dataMeta: p.first(), l.dataEnd: p.address + uint64(p.end), l.hardStart: p.address,
	} {
		if err := m.store(p.context+uint64(offset), 8, value); err != nil {
			return err
		}
	}
	return nil
}

// XDP runs the program, which is one for XDP, on a frame that arrives by the interface
// with this index, and counts what it executes. Maps have the contents that they have
// now; what the program writes is forgotten. The thread has to stay on its CPU.
func (p *Program) XDP(frame []byte, index uint32, now Clock) (count Count, err error) {
	p.maps = make(map[uint32]*mapping)
	defer p.closeMaps()
	m := &machine{memory: newMemory(), program: p, clock: now, count: newCount()}
	buffer := append(make([]byte, headroom), frame...)
	m.packet = &packet{start: headroom, end: uint32(len(buffer)), bytes: buffer}
	m.packet.address = m.add(&region{name: "packet", kind: kindPacket, bytes: buffer})
	m.packet.context = m.kernelObjects(index)
	cpu, err := currentCPU()
	if err != nil {
		return Count{}, err
	}
	number := make([]byte, 4)
	put(number, 0, 4, cpu)
	m.cpuNumber = m.add(&region{name: "number of the CPU", kind: kindKernel, bytes: number})
	if err := m.packet.publish(m); err != nil {
		return Count{}, err
	}
	m.lines = make(map[kind]map[uint64]bool)
	if m.count.Verdict, err = m.run(m.packet.context); err != nil {
		return Count{}, fmt.Errorf("after %d instructions: %w", m.count.Instructions, err)
	}
	m.count.Packet = buffer[m.packet.start:m.packet.end]
	m.count.PacketLines, m.count.MapLines = len(m.lines[kindPacket]), len(m.lines[kindMap])
	return m.count, nil
}

// kernelObjects makes the kernel's structures that a program in XDP reaches, and
// returns the address of its context.
func (m *machine) kernelObjects(index uint32) uint64 {
	l := m.program.layout
	const enough = 4096
	device, queue := &region{
		name:  "net_device",
		kind:  kindKernel,
		bytes: make([]byte, enough),
	}, &region{
		name:  "xdp_rxq_info",
		kind:  kindKernel,
		bytes: make([]byte, enough),
	}
	// A driver may keep something after its struct xdp_buff.
	context := &region{name: "xdp_buff", kind: kindKernel, bytes: make([]byte, l.size+64)}
	put(device.bytes, l.ifindex, 4, uint64(index))
	put(queue.bytes, l.rxqDevice, 8, m.add(device))
	put(context.bytes, l.rxq, 8, m.add(queue))
	return m.add(context)
}
