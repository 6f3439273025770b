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
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/internal/tsharktest"
	"github.com/waymark-net/waymark/ioam"
)

// complaints takes packets in which tshark finds something to warn of, or only
// to note. That a connection ends is no fault, nor that a busy machine's TCP sent
// something twice, and its opinion on TCP's sequence numbers is not asked for.
const complaints = "_ws.malformed || (_ws.expert.severity >= 0x600000 && !tcp.options.sack.dsack) || " +
	"(_ws.expert.severity >= 0x400000 && !(tcp.flags.fin == 1) && !tcp.options.sack.dsack)"

func checkNoComplaint(t *testing.T, path string) {
	t.Helper()
	args := append(slices.Clone(asData), "-e", "frame.number", "-e", "frame.protocols", "-e", "_ws.expert.message")
	for _, line := range tshark.Run(t, path, complaints, args...) {
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
	{9109, slices.Repeat([]string{"namespace: 123, type: 0x800000, size: 12"}, model.MaxOptionsPerPacket)},
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
	t.Parallel()
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
		if lines := tshark.Run(t, path, complaints, "-e", "_ws.expert.message"); len(lines) != 1 {
			t.Errorf("%s: tshark does not complain: %q", name, lines)
		}
	}
}

// compareDecoders holds `waymark decode` to tshark.
func compareDecoders(t *testing.T, path, format string, least int) {
	t.Helper()
	records := decoded(t, path, format)
	if len(records) < least {
		t.Errorf("%d traces in the capture, want at least %d", len(records), least)
	}
	clock := export.Clock{Format: ioam.TimestampPOSIX}
	if format == "ptp" {
		clock = export.Clock{Format: ioam.TimestampPTP, TAIOffset: kernelTAIOffset()}
	}
	for name, n := range tsharktest.Compare(t, path, clock, records) {
		if n == 0 {
			t.Errorf("the capture has no %s: nothing was compared", name)
		}
	}
}

// decoded are the records that `waymark decode` makes of a capture.
func decoded(t *testing.T, path, format string) []export.TraceRecord {
	t.Helper()
	code, stdout, stderr := waymark(t, "decode", "--json", "--timestamp-format", format, "--tai-offset", kernelTAIOffset().String(), path)
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
