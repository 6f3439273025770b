// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/testnet"
)

// A cell of the table is one form with one carrier, with headers in front, as three nodes see it.
type cell struct {
	carrierRow
	formRow
	number  int
	role    model.Direction // of the second node, or the third
	leading []byte
	odd     bool // the block
}

// TestMarkingTable marks packets in every form that the kernel gives them, with every carrier, at
// the first of three nodes, and counts them at each: the kernel makes the packets, carries their
// segments out with the marks in them, and takes the tunnels away. What the configuration
// refuses is in the table, too.
func TestMarkingTable(t *testing.T) {
	enterRouter(t)
	onOneCPU(t) // each has a delay mark of its own
	testnet.Run(t, "ip -6 route add fc00::/16 via 2001:db8:f::2 dev out; ip -6 route add fcbb:bb00::/32 via 2001:db8:f::2 dev out")
	rows, carriers := formRows(), carrierRows()
	path := raisePath(t, rows)
	allowed := make([]map[string]bool, len(carriers))
	for i, c := range carriers {
		allowed[i] = checkRefused(t, c, rows)
	}
	if t.Failed() {
		t.FailNow()
	}
	cells := 0
	for block := range 2 { // both colours
		clock := fixedTime + int64(block)*time.Second.Nanoseconds()
		loaded := make(map[bool]*programs) // those that insert the option are others
		for i, c := range carriers {
			inserts := c.marking.Carrier == model.CarrierOption
			for _, role := range directions[1:] {
				cfg := c.config(rows, allowed[i], role)
				p := loaded[inserts]
				if p == nil {
					p = loadProgramsOn(t, cfg, arrivalIndex, fastArrival, clock, hookIngressXDP, hookIngressTC, hookEgressTC)
					p.routes(t, forward.Routing{MTU: forward.AnyMTU}, 0)
					loaded[inserts] = p
				} else {
					p.measure(t, cfg)
				}
				for number, r := range rows {
					if !allowed[i][r.name] {
						continue
					}
					for _, leading := range [][]byte{nil, {craft.HopByHop}, {craft.DestinationOptions}, {craft.HopByHop, craft.DestinationOptions}} {
						one := cell{c, r, number, role, leading, blockOf(clock, time.Second)&1 == 1}
						if one.check(t, p, path, clock); t.Failed() {
							t.Fatalf("%s, %s, %v, with headers %v in front, odd block %v", c.name, r.name, role, leading, one.odd)
						}
						cells++
					}
				}
			}
		}
	}
	t.Logf("%d forms of packets were marked and counted", cells)
}

// config measures all forms that a carrier may mark.
func (c carrierRow) config(rows []formRow, allowed map[string]bool, role model.Direction) model.NodeConfig {
	cfg := rightConfig()
	cfg.Interfaces = cfg.Interfaces[:2]
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
	cfg.Measurement = model.Measurement{Block: time.Second, Marking: c.marking}
	for i, r := range rows {
		if allowed[r.name] {
			cfg.Measurement.Flows = append(cfg.Measurement.Flows, measuredRow(c, r, i, model.DirectionOut), measuredRow(c, r, i, role))
		}
	}
	return cfg
}

// check sends two packets through the three nodes, the first with a delay mark, and one that is
// not marked.
func (c cell) check(t *testing.T, p *programs, path [3]kernelRouter, clock int64) {
	t.Helper()
	pass := func(router int, frame []byte) []byte {
		t.Helper()
		out := path[router].pass(t, frame)
		if out == nil {
			t.Fatalf(
				"%s, %s, headers %v in front: nothing leaves the kernel of router %d\n%x",
				c.carrierRow.name,
				c.formRow.name,
				c.leading,
				router,
				frame,
			)
		}
		return out
	}
	packet := craft.Between("2001:db8:1::2", c.destination(c.number), craft.UDP)
	packet.Class = 0xb9 // no colour
	original := craft.Ethernet(linkAddress, linkAddress, packet.With(craft.Datagram(1, 2, bytes.Repeat([]byte{byte(c.number), 0x5a}, 20)...)))
	plain := inFront(pass(0, original), c.leading)
	first, second := c.formRow.name+", out", c.formRow.name+", "+c.role.String()
	p.forget(first)
	p.forget(second)
	out, in := measure.BlockCounts{Flow: first}, measure.BlockCounts{Flow: second}
	into := uint64(clock-taiUTC.Nanoseconds()) % uint64(time.Second)
	arrive := func(frame []byte, marked, delay bool) {
		t.Helper()
		next := pass(1, frame)
		if text := c.differs(original, pass(2, next)); text != "" {
			t.Errorf("after the last router: %s", text)
		}
		if c.role == model.DirectionIn {
			frame = next
		}
		for _, program := range []*ebpf.Program{p.tcIn, p.xdp} {
			if _, after := run(t, program, frame, 0); !bytes.Equal(after, frame) {
				t.Errorf("a packet changed where it arrived")
			}
			expect(&in, frame, marked, delay, into, c.finds(marked))
		}
	}
	for i := range 2 {
		want, marked := c.marked(plain, i == 0)
		_, sent := run(t, p.tcOut, plain, 0)
		if !bytes.Equal(sent, want) {
			t.Errorf("packet %d left as\n%x\nwant\n%x", i, sent, want)
		}
		expect(&out, sent, marked, i == 0, into, true)
		arrive(sent, marked, i == 0)
	}
	arrive(plain, false, false)
	if text := c.leaves(t, p, plain, &out, &in, into); text != "" {
		t.Error(text)
	}
	for _, want := range []measure.BlockCounts{out, in} {
		got := p.counts(t, want.Flow, blockOf(clock, time.Second))
		got.Block, got.Complete, got.Selection = 0, false, loss.Selection{}
		if got != want {
			t.Errorf("counted %+v\nwant %+v", got, want)
		}
	}
}

// leaves sends two packets through XDP, which marks those that it forwards, and says what is
// wrong with that. They are counted where they arrive, too.
func (c cell) leaves(t *testing.T, p *programs, plain []byte, out, in *measure.BlockCounts, into uint64) string {
	t.Helper()
	p.hear()
	arriving := slices.Concat(arrivalAddress, plain[6:])
	fast := len(c.leading) == 0 || c.leading[0] != craft.HopByHop // such packets are the stack's
	for i := range 2 {
		want, marked, wanted := slices.Clone(arriving), false, uint32(2)
		if fast {
			want, marked = c.marked(arriving, false) // a CPU has marked the first one for the delay
			want[14+7]--
			copy(want, slices.Concat(neighbourAddress, departureAddress))
			expect(out, want, marked, false, into, true)
			wanted = 4
		}
		verdict, got := runOn(t, p.xdp, arriving)
		if verdict != wanted || !bytes.Equal(got, want) {
			return fmt.Sprintf("packet %d in XDP: verdict %d\n%x\nwant %d\n%x", i, verdict, got, wanted, want)
		}
		expect(in, arriving, false, false, into, c.finds(false))
	}
	return ""
}

// expect counts a packet as a node should.
func expect(b *measure.BlockCounts, frame []byte, marked, delay bool, into uint64, found bool) {
	switch {
	case !found:
	case !marked:
		b.Unmarked++
	default:
		b.Packets++
		b.Octets += uint64(len(frame) - 14)
		b.TimeSum += into
		if delay {
			b.DelayPackets++
			b.DelayTimeSum += into
		}
	}
}

// finds reports whether the second node finds a packet: one that does so by FlowMonID needs the
// option.
func (c cell) finds(marked bool) bool {
	return marked || c.marking.Carrier != model.CarrierOption || c.role == model.DirectionIn
}

// inFront puts headers without a meaning behind the first IPv6 header.
func inFront(frame, kinds []byte) []byte {
	for _, kind := range slices.Backward(kinds) {
		frame = slices.Insert(slices.Clone(frame), 14+40, frame[14+6], 0, 1, 4, 0, 0, 0, 0)
		frame[14+6] = kind
		binary.BigEndian.PutUint16(frame[14+4:], uint16(len(frame)-14-40))
	}
	return frame
}

// marked is a frame as it should leave the first node, and whether that can mark it: another
// Hop-by-Hop or Destination Options header is in the way of the option.
func (c cell) marked(frame []byte, delay bool) ([]byte, bool) {
	frame = slices.Clone(frame)
	parity := 0
	if c.odd {
		parity = 1
	}
	value := c.marking.Colours[parity]
	if delay {
		value = c.marking.Delay[parity]
	}
	switch c.marking.Carrier {
	case model.CarrierClass:
		word := binary.BigEndian.Uint16(frame[14:])
		binary.BigEndian.PutUint16(frame[14:], word&^(uint16(c.marking.Mask)<<4)|uint16(value)<<4)
	case model.CarrierArgument:
		at := lastSID(frame) + int(c.marking.Octet)
		frame[at] = frame[at]&^c.marking.Mask | value
	default:
		if len(c.leading) > 0 {
			return frame, false
		}
		header := uint8(craft.DestinationOptions)
		if c.marking.HopByHop {
			header = craft.HopByHop
		}
		return withOption(frame, header, uint32(0x12300+c.number), c.odd, delay), true
	}
	return frame, true
}

// lastSID is where the last SID is: the first entry of the SRH, or the destination.
func lastSID(frame []byte) int {
	next, at := frame[14+6], 14+40
	for next == craft.HopByHop || next == craft.DestinationOptions {
		next, at = frame[at], at+8*(int(frame[at+1])+1)
	}
	if next == srv6.NextHeaderRouting {
		return at + 8
	}
	return 14 + 24
}

// differs says how the packet that leaves the last router is not the one that entered the first:
// but for its hop limit, if it was in a tunnel; an inline one keeps its headers.
func (c cell) differs(original, last []byte) string {
	if c.path.Mode == srv6.ModeInline {
		if !bytes.HasSuffix(last, original[14+40:]) {
			return "another payload"
		}
		return ""
	}
	last = slices.Clone(last)
	if len(last) > 14+7 {
		last[14+7] = original[14+7]
	}
	if !bytes.Equal(last, original) {
		return "another packet than was sent"
	}
	return ""
}
