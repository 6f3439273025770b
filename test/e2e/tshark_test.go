// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
)

// complaints takes packets in which tshark finds something to warn of, or only
// to note. That a connection ends is no fault, and its opinion on TCP's sequence
// numbers is not asked for.
const complaints = "_ws.malformed || _ws.expert.severity >= 0x600000 || (_ws.expert.severity >= 0x400000 && !(tcp.flags.fin == 1))"

func checkNoComplaint(t *testing.T, path string) {
	t.Helper()
	args := append(slices.Clone(asData), "-e", "frame.number", "-e", "frame.protocols", "-e", "_ws.expert.message")
	for _, line := range tshark(t, path, complaints, args...) {
		t.Errorf("tshark complains: %s", line)
	}
}

// asData keeps tshark from guessing what our payload may be.
var asData = []string{"-o", "tcp.analyze_sequence_numbers:FALSE", "-d", "udp.port==9000-9109,data", "-d", "tcp.port==9001,data"}

// options are traces of several kinds, by the port that they go to.
var options = []struct {
	port   uint16
	traces []string
}{
	{9101, []string{"namespace: 123, type: 0xfff002, size: 132", "namespace: 456, type: 0x800000, size: 12"}},
	{9102, []string{"namespace: 123, type: 0x800000, size: 4"}},  // no room behind athos
	{9103, []string{"namespace: 456, type: 0xf80000, size: 40"}}, // none behind porthos
	{9104, []string{"namespace: 123, type: 0xc00000, size: 24", "namespace: 456, type: 0xf80000, size: 60", "namespace: 123, type: 0x00e000, size: 72"}},
	{9105, []string{"namespace: 456, type: 0x800002, size: 48"}}, // porthos has a schema
	{9106, []string{"namespace: 456, type: 0x0f1000, size: 60"}},
	{9107, []string{"namespace: 123, type: 0x100000, size: 100", "namespace: 456, type: 0x200000, size: 8"}},
	{9108, []string{"namespace: 789, type: 0xfff000, size: 120"}}, // porthos does not know it
	{9109, slices.Repeat([]string{"namespace: 123, type: 0x800000, size: 12"}, ioam.MaxOptionsPerPacket)},
}

// variety is a domain with all the options.
func variety(t *testing.T, tt transfer, format string) *lab.Topology {
	t.Helper()
	top := domain(t, tt)
	setMTU(top, 1500, 2000)
	tunnel, remove := "    tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}\n", ""
	if tt.mode == "inline" {
		tunnel, remove = "", ", remove: true"
	}
	var rules strings.Builder
	for _, o := range options {
		port := strconv.Itoa(int(o.port))
		rules.WriteString("  - name: port-" + port + "\n    interface: eth1\n    mode: " + tt.mode + "\n" + tunnel +
			"    match: {destination: 2001:db8:2::/64, next-header: udp, destination-port: " + port + "}\n    options:\n")
		for _, trace := range o.traces {
			rules.WriteString("      - trace: {" + trace + "}\n")
		}
	}
	for node, namespaces := range map[string]string{
		"athos":   "  - {id: 123, data: 0xdeadbeef}\n  - {id: 456}\n  - {id: 789, data-wide: 0x0123456789abcdef}",
		"porthos": "  - {id: 123, data: 0xcafe0002, data-wide: 0xcafec0caf00dc0de}\n  - {id: 456, schema: {id: 777, data: rack 7}}",
		"aramis":  "  - {id: 123" + remove + "}\n  - {id: 456" + remove + "}\n  - {id: 789" + remove + "}",
	} {
		first := "  - {id: 123}"
		if node == "aramis" {
			first = "  - {id: 123" + remove + "}"
		}
		reconfigure(t, top, node, first, namespaces, "node: {", "node: {timestamp-format: "+format+", ")
	}
	reconfigure(t, top, "athos", "encapsulations:\n", "encapsulations:\n"+rules.String())
	return top
}

// tshark, written by others, finds no fault with our packets, and reads from
// them what we read.
func TestTshark(t *testing.T) {
	checkControl(t)
	for i, tt := range modes("xdp") {
		format := []string{"posix", "ptp"}[i]
		t.Run(tt.mode+" with times in "+format, func(t *testing.T) {
			l := raise(t, variety(t, tt, format))
			// Of its own accord, the kernel drops what has more than 8 options.
			if err := l.Node("porthos").Do(func() error {
				return os.WriteFile("/proc/sys/net/ipv6/max_hbh_opts_number", []byte("9"), 0)
			}); err != nil {
				t.Fatal(err)
			}
			arriving, leaving, beta := startWire(t, l, "porthos", "eth0"), startWire(t, l, "porthos", "eth1"), startScan(t, l, "beta", "eth0")
			const count = 5
			send(t, l, "alpha",
				lab.Traffic{Kind: lab.KindPing, Count: count, Size: 56},
				lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 4000, Port: 9000}, // fragments
				lab.Traffic{Kind: lab.KindTCP, Bytes: 1 << 20, Port: 9001})
			expected := 0
			for _, o := range options {
				send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: o.port})
				expected += count * len(o.traces)
			}
			arriving.stop(t)
			leaving.stop(t)
			beta.stop(t)
			if n := beta.ioamBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
			for _, w := range []*wire{arriving, leaving} {
				checkNoComplaint(t, w.path)
				compareDecoders(t, w.path, format, expected)
			}
		})
	}
}

// checkControl makes sure that tshark does complain when there is reason to.
func checkControl(t *testing.T) {
	t.Helper()
	for name, option := range map[string][]byte{
		"NodeLen contradicts the trace type": traceOption(123, 0x800000, 0, 18, 80),
		"RemainingLen beyond the option":     traceOption(123, 0x800000, 0, 21, 80),
	} {
		if name == "NodeLen contradicts the trace type" {
			option[6] = 2 << 3
		}
		frame := append([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0x86, 0xdd}, packet(1, 64, hopByHop(2, option), []byte("payload"))...)
		path := filepath.Join(t.TempDir(), "control.pcap")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := pcapgo.NewWriter(file)
		if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
			t.Fatal(err)
		}
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(frame), Length: len(frame)}, frame); err != nil {
			t.Fatal(err)
		}
		if lines := tshark(t, path, complaints, "-e", "_ws.expert.message"); len(lines) != 1 {
			t.Errorf("%s: tshark does not complain: %q", name, lines)
		}
	}
}

// reading is a field as both read it: tshark's name, and what our record has,
// all-ones when there is no value.
type reading struct {
	name string
	bit  int
	ours func(n export.TraceNode) uint64
}

func or[T ~uint8 | ~uint16 | ~uint32 | ~uint64](f export.Field[T], ones uint64) uint64 {
	if !f.Valid {
		return ones
	}
	return uint64(f.Value)
}

// readings are the fields of a node, with times as the format has them.
func readings(format string) []reading {
	const ones16, ones24, ones32, ones56, ones64 = 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<56 - 1, 1<<64 - 1
	tai, unit := int64(0), 1000 // of UTC seconds; nanoseconds of a fraction
	if format == "ptp" {
		tai, unit = 37, 1
	}
	return []reading{
		{"id", ioam.BitNode, func(n export.TraceNode) uint64 { return or(n.NodeID, ones24) }},
		{"iif", ioam.BitInterfaces, func(n export.TraceNode) uint64 { return or(n.IngressID, ones16) }},
		{"eif", ioam.BitInterfaces, func(n export.TraceNode) uint64 { return or(n.EgressID, ones16) }},
		{"tss", ioam.BitTimestampSeconds, func(n export.TraceNode) uint64 { return uint64(n.Timestamp.Value.Unix() + tai) }},
		{"tsf", ioam.BitTimestampFraction, func(n export.TraceNode) uint64 {
			if n.TimestampFraction.Present {
				return or(n.TimestampFraction, ones32)
			}
			return uint64(n.Timestamp.Value.Nanosecond() / unit)
		}},
		{"trdelay", ioam.BitTransitDelay, func(n export.TraceNode) uint64 { return or(n.TransitDelay, ones32) }},
		{"nsdata", ioam.BitNamespaceData, func(n export.TraceNode) uint64 { return or(n.NamespaceData, ones32) }},
		{"qdepth", ioam.BitQueueDepth, func(n export.TraceNode) uint64 { return or(n.QueueDepth, ones32) }},
		{"csum", ioam.BitChecksumComplement, func(n export.TraceNode) uint64 { return or(n.ChecksumComplement, ones32) }},
		{"id_wide", ioam.BitNodeWide, func(n export.TraceNode) uint64 { return or(n.NodeIDWide, ones56) }},
		{"iif_wide", ioam.BitInterfacesWide, func(n export.TraceNode) uint64 { return or(n.IngressIDWide, ones32) }},
		{"eif_wide", ioam.BitInterfacesWide, func(n export.TraceNode) uint64 { return or(n.EgressIDWide, ones32) }},
		{"nsdata_wide", ioam.BitNamespaceDataWide, func(n export.TraceNode) uint64 { return or(n.NamespaceDataWide, ones64) }},
		{"bufoccup", ioam.BitBufferOccupancy, func(n export.TraceNode) uint64 { return or(n.BufferOccupancy, ones32) }},
		{"oss.scid", ioam.BitSnapshot, func(n export.TraceNode) uint64 {
			if !n.Snapshot.Valid {
				return ones24
			}
			return uint64(n.Snapshot.Value.Schema)
		}},
	}
}

// compareDecoders holds `waymark decode` to tshark.
func compareDecoders(t *testing.T, path, format string, least int) {
	t.Helper()
	fields := readings(format)
	const prefix = "ipv6.opt.ioam.trace."
	args := []string{"-e", prefix + "ns", "-e", prefix + "type", "-e", prefix + "remlen", "-e", prefix + "flags"}
	heads := len(args) / 2
	for _, f := range fields {
		args = append(args, "-e", prefix+"node."+f.name)
	}
	records := decoded(t, path, format)
	if len(records) < least {
		t.Errorf("%d traces in the capture, want at least %d", len(records), least)
	}
	compared := map[string]int{}
	for i, line := range tshark(t, path, prefix+"ns", args...) {
		columns := make([][]uint64, 0, len(args)/2)
		for column := range strings.SplitSeq(line, "\t") {
			columns = append(columns, numbers(t, column))
		}
		if len(columns[0]) > len(records) {
			t.Fatalf("tshark finds more traces than we do, from its packet %d on", i+1)
		}
		want := make([][]uint64, len(columns))
		for _, r := range records[:len(columns[0])] { // one record per option
			want[0], want[1], want[2] = append(want[0], uint64(r.Namespace)), append(want[1], uint64(r.TraceType)), append(want[2], uint64(r.Remaining))
			want[3] = append(want[3], flags(r))
			for j, f := range fields {
				for _, n := range slices.Backward(r.Nodes) {
					if r.TraceType.Has(f.bit) {
						want[heads+j] = append(want[heads+j], f.ours(n))
						compared[f.name]++
					}
				}
			}
		}
		records = records[len(columns[0]):]
		for j := range columns {
			if !slices.EqualFunc(columns[j], want[j], func(theirs, ours uint64) bool {
				// A delay with the top bit is one that nobody has measured.
				return theirs == ours || args[2*j+1] == prefix+"node.trdelay" && ours == 1<<32-1 && theirs >= 1<<31
			}) {
				t.Fatalf("marked packet %d, %s: tshark has %x, we %x", i+1, args[2*j+1], columns[j], want[j])
			}
		}
	}
	if len(records) > 0 {
		t.Errorf("tshark does not find our last %d traces", len(records))
	}
	for _, f := range fields {
		if compared[f.name] == 0 {
			t.Errorf("the capture has no %s: nothing was compared", f.name)
		}
	}
}

// flags are the trace's flags, of which our nodes set one.
func flags(r export.TraceRecord) uint64 {
	if r.Overflow {
		return uint64(ioam.FlagOverflow)
	}
	return 0
}

// decoded are the records that `waymark decode` makes of a capture.
func decoded(t *testing.T, path, format string) []export.TraceRecord {
	t.Helper()
	code, stdout, stderr := waymark(t, "decode", "--json", "--timestamp-format", format, path)
	if code != 0 || stderr != "" {
		t.Fatalf("waymark decode: exit code %d, %s", code, stderr)
	}
	var records []export.TraceRecord
	for line := range strings.Lines(stdout) {
		var r export.TraceRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// numbers reads a column of tshark, the values of a packet in their order.
func numbers(t *testing.T, column string) []uint64 {
	t.Helper()
	var list []uint64
	for word := range strings.SplitSeq(column, ",") {
		if word == "" {
			continue
		}
		v, err := strconv.ParseUint(word, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}
