// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// nineTypes are the trace types of nine options: fields whose values are the same
// for every packet, and a different length in each option.
var nineTypes = [model.MaxOptionsPerPacket]ioam.TraceType{
	0x800000, 0xc00000, 0xc40000, 0x800000, 0xc0e000, 0xc00000, 0x840000, 0x800000, 0xc40000,
}

// hop is what a node of the line writes into a trace.
type hop struct {
	limit, id       byte
	ingress, egress uint16
}

var lineHops = []hop{{63, 1, 101, 102}, {62, 2, 201, 202}, {61, 3, 301, 0xffff}}

// namespaceData differs by node and namespace.
func (h hop) namespaceData(ns ioam.NamespaceID) uint32 { return uint32(h.id)<<24 | uint32(ns) }

// Wide ids that the line gives its nodes and interfaces.
var (
	wideNode      = map[byte]uint64{1: 11111111, 2: 22222222, 3: 33333333}
	wideInterface = map[uint16]uint32{101: 101101, 102: 102102, 201: 201201, 202: 202202, 301: 301301}
)

// data is the node's part of a trace, field by field (RFC 9197 §4.4.2).
func (h hop) data(kind ioam.TraceType, ns ioam.NamespaceID) []byte {
	var b []byte
	for _, field := range []struct {
		bit   int
		value []byte
	}{
		{0, []byte{h.limit, 0, 0, h.id}},
		{1, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, h.ingress), h.egress)},
		{5, binary.BigEndian.AppendUint32(nil, h.namespaceData(ns))},
		{8, binary.BigEndian.AppendUint64(nil, uint64(h.limit)<<56|wideNode[h.id])},
		{9, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, wideInterface[h.ingress]), wideInterface[h.egress])},
		{10, bytes.Repeat([]byte{0xff}, 8)}, // no wide data are configured
	} {
		if kind&(1<<(23-field.bit)) != 0 {
			b = append(b, field.value...)
		}
	}
	return b
}

// nineOptions is the Hop-by-Hop header after the first hops of the line.
func nineOptions(next byte, namespaces []ioam.NamespaceID, hops int) []byte {
	h := []byte{next, 0, 1, 0}
	for i, kind := range nineTypes {
		ns := namespaces[i%len(namespaces)]
		var data []byte // the last node comes first
		for _, hop := range lineHops[:hops] {
			data = append(hop.data(kind, ns), data...)
		}
		each := len(data) / hops
		free := (len(lineHops) - hops) * each
		h = append(h, 0x31, byte(10+free+len(data)), 0, 0)
		h = binary.BigEndian.AppendUint16(h, uint16(ns))
		h = binary.BigEndian.AppendUint16(h, uint16(each/4<<11|free/4)) // NodeLen, no flag, RemainingLen
		h = binary.BigEndian.AppendUint32(h, uint32(kind)<<8)
		h = append(append(h, make([]byte, free)...), data...)
	}
	if len(h)%8 != 0 {
		h = append(h, 1, 2, 0, 0)
	}
	h[1] = byte(len(h)/8 - 1)
	return h
}

// configureNine gives athos' encapsulations nine options, and every node the
// namespaces.
func configureNine(t *testing.T, top *lab.Topology, namespaces []ioam.NamespaceID) {
	t.Helper()
	for i, node := range []string{"athos", "porthos", "aramis"} {
		line := regexp.MustCompile(`(?m)^ *- \{id: 123.*\}$`).FindString(string(top.Node(node).Agent.Config))
		var lines []string
		for _, ns := range namespaces {
			lines = append(lines, strings.Replace(line, "id: 123", fmt.Sprintf("id: %d, data: 0x%08x", ns, lineHops[i].namespaceData(ns)), 1))
		}
		e2e.Reconfigure(t, top, node, line, strings.Join(lines, "\n"))
	}
	line := regexp.MustCompile(`(?m)^ *- trace: .*$`).FindString(string(top.Node("athos").Agent.Config))
	var options []string
	for i, kind := range nineTypes {
		option := strings.Replace(line, "0xf80000, size: 60", fmt.Sprintf("0x%06x, size: %d", uint32(kind), 12*kind.NodeLen()), 1)
		options = append(options, strings.Replace(option, "123", fmt.Sprint(namespaces[i%len(namespaces)]), 1))
	}
	e2e.Reconfigure(t, top, "athos", line, strings.Join(options, "\n"))
}

// Nine options, in one namespace and in several: each node fills each option, to
// the byte, and each is reported as its own trace, in their order.
func TestNineOptions(t *testing.T) {
	t.Parallel()
	one, four := []ioam.NamespaceID{123}, []ioam.NamespaceID{123, 456, 7, 65535}
	for _, tt := range e2e.Modes("xdp") {
		t.Run(tt.Mode, func(t *testing.T) {
			configured := func(namespaces []ioam.NamespaceID) *lab.Topology {
				top := e2e.Domain(t, tt)
				e2e.SetMTU(top, 1500, 2000)
				configureNine(t, top, namespaces)
				return top
			}
			l := e2e.Raise(t, configured(one))
			// the kernel accepts eight options by default
			e2e.Must(t, l.Node("porthos"), "sysctl", "-w", "net.ipv6.max_hbh_opts_number=9")
			t.Run("1 namespace", func(t *testing.T) { checkNineOptions(t, l, tt, one) })
			several := configured(four)
			for _, node := range domain { // the same programs, with other tables
				if err := l.Node(node).Reconfigure(t.Context(), several.Node(node).Agent.Config); err != nil {
					t.Fatal(err)
				}
			}
			t.Run("4 namespaces", func(t *testing.T) { checkNineOptions(t, l, tt, four) })
		})
	}
}

// checkNineOptions sends packets, and checks their headers after each node, and their traces.
func checkNineOptions(t *testing.T, l *lab.Lab, tt e2e.Transfer, namespaces []ioam.NamespaceID) {
	t.Helper()
	counted := e2e.CountedFrom(t, l, domain...)
	byAthos, byPorthos := e2e.SentHeaders(t, l, "athos", "eth1"), e2e.SentHeaders(t, l, "porthos", "eth1")
	traces := e2e.Keep(t, l, "aramis")
	const count = 10
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
	checkNineTraces(t, traces.Read(t, count*len(nineTypes)), namespaces, count)
	next := byte(17)
	if tt.Mode == "encap" {
		next = 41
	}
	for hops, headers := range map[int][][]byte{1: byAthos(), 2: byPorthos()} {
		if len(headers) != count {
			t.Errorf("hop %d sent %d packets with a Hop-by-Hop header, want %d", hops, len(headers), count)
		}
		want := nineOptions(next, namespaces, hops)
		for i, got := range headers {
			if !bytes.Equal(got, want) {
				t.Fatalf("packet %d after hop %d:\n%x\nwant\n%x", i, hops, got, want)
			}
		}
	}
	counted.Check(t, "athos", map[string]uint64{tt.Added: count})
	counted.Check(t, "porthos", map[string]uint64{"trace_filled": 2 * count})
	counted.Check(t, "aramis", map[string]uint64{tt.Removed: count})
}

// checkNineTraces checks that each packet has nine traces, in the order of its
// options, with what each of three nodes wrote.
func checkNineTraces(t *testing.T, traces []record.Trace, namespaces []ioam.NamespaceID, count int) {
	t.Helper()
	byPacket := map[int64][]record.Trace{}
	for _, r := range traces {
		byPacket[r.Time.UnixNano()] = append(byPacket[r.Time.UnixNano()], r)
	}
	if len(byPacket) != count {
		t.Errorf("traces of %d packets, want %d", len(byPacket), count)
	}
	for _, of := range byPacket {
		if len(of) != len(nineTypes) {
			t.Fatalf("a packet has %d traces: %+v", len(of), of)
		}
		for i, r := range of {
			ns, kind := namespaces[i%len(namespaces)], nineTypes[i]
			if r.Namespace != ns || r.TraceType != kind || r.Overflow.Value || r.Remaining.Value != 0 || len(r.Nodes) != len(lineHops) {
				t.Fatalf("option %d: %+v; want namespace %d, type %v, full, of three nodes", i, r, ns, kind)
			}
			for n, node := range r.Nodes {
				h := lineHops[n]
				if e2e.Value(node.NodeID) != fmt.Sprint(h.id) || e2e.Value(node.HopLimit) != fmt.Sprint(h.limit) ||
					kind.Has(ioam.BitInterfaces) && e2e.Value(node.IngressID) != fmt.Sprint(h.ingress) ||
					kind.Has(ioam.BitNamespaceData) && uint32(node.NamespaceData.Value) != h.namespaceData(ns) ||
					kind.Has(ioam.BitNodeWide) && e2e.Value(node.NodeIDWide) != fmt.Sprint(wideNode[h.id]) {
					t.Fatalf("option %d, node %d: %+v", i, n, node)
				}
			}
		}
	}
}
