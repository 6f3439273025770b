// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/internal/tsharktest"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

func checkNoComplaint(t *testing.T, path string) {
	t.Helper()
	args := append(slices.Clone(e2e.AsData), "-e", "frame.number", "-e", "frame.protocols", "-e", "_ws.expert.message")
	for _, line := range tshark.Run(t, path, e2e.Complaints, args...) {
		t.Errorf("tshark complains: %s", line)
	}
}

// options are traces of several kinds, by destination port.
var options = []struct {
	port   uint16
	traces []string
}{
	{9101, []string{"namespace: 123, type: 0xfff002, size: 132", "namespace: 456, type: 0x800000, size: 12"}},
	{9102, []string{"namespace: 123, type: 0x800000, size: 4"}},  // no room after athos
	{9103, []string{"namespace: 456, type: 0xf80000, size: 40"}}, // no room after porthos
	{9104, []string{"namespace: 123, type: 0xc00000, size: 24", "namespace: 456, type: 0xf80000, size: 60", "namespace: 123, type: 0x00e000, size: 72"}},
	{9105, []string{"namespace: 456, type: 0x800002, size: 48"}}, // porthos has a schema
	{9106, []string{"namespace: 456, type: 0x0f1000, size: 60"}},
	{9107, []string{"namespace: 123, type: 0x100000, size: 100", "namespace: 456, type: 0x200000, size: 8"}},
	{9108, []string{"namespace: 789, type: 0xfff000, size: 120"}}, // porthos does not know this namespace
	{9109, slices.Repeat([]string{"namespace: 123, type: 0x800000, size: 12"}, model.MaxOptionsPerPacket)},
}

// variety is a domain with all the options.
func variety(t *testing.T, tt e2e.Transfer, format string) *lab.Topology {
	t.Helper()
	top := e2e.Domain(t, tt)
	e2e.SetMTU(top, 1500, 2000)
	tunnel, remove := "    tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}\n", ""
	if tt.Mode == "inline" {
		tunnel, remove = "", ", remove: true"
	}
	var rules strings.Builder
	for _, o := range options {
		port := strconv.Itoa(int(o.port))
		rules.WriteString("  - name: port-" + port + "\n    interface: eth1\n    mode: " + tt.Mode + "\n" + tunnel +
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
		e2e.Reconfigure(t, top, node, first, namespaces, "node: {", "node: {timestamp-format: "+format+", ")
	}
	e2e.Reconfigure(t, top, "athos", "encapsulations:\n", "encapsulations:\n"+rules.String())
	return top
}

// tshark, an independent decoder, finds no error in our packets and decodes the
// same values as ours.
func TestTshark(t *testing.T) {
	t.Parallel()
	e2e.CheckControl(t)
	for i, tt := range e2e.Modes("xdp") {
		format := []string{"posix", "ptp"}[i]
		t.Run(tt.Mode+" with times in "+format, func(t *testing.T) {
			l := e2e.Raise(t, variety(t, tt, format))
			// By default, the kernel drops packets with more than 8 options.
			if err := l.Node("porthos").Do(func() error {
				return os.WriteFile("/proc/sys/net/ipv6/max_hbh_opts_number", []byte("9"), 0)
			}); err != nil {
				t.Fatal(err)
			}
			arriving, leaving, beta := e2e.StartWire(
				t,
				l,
				"porthos",
				"eth0",
			), e2e.StartWire(
				t,
				l,
				"porthos",
				"eth1",
			), e2e.StartScan(
				t,
				l,
				"beta",
				"eth0",
			)
			const count = 5
			e2e.Send(t, l, "alpha",
				lab.Traffic{Kind: lab.KindPing, Count: count, Size: 56},
				lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 4000, Port: 9000}, // fragments
				lab.Traffic{Kind: lab.KindTCP, Bytes: 1 << 20, Port: 9001})
			expected := 0
			for _, o := range options {
				e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: o.port})
				expected += count * len(o.traces)
			}
			arriving.Stop(t)
			leaving.Stop(t)
			beta.Stop(t)
			if n := beta.IOAMBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
			for _, w := range []*e2e.Wire{arriving, leaving} {
				checkNoComplaint(t, w.Path)
				compareDecoders(t, w.Path, format, expected)
			}
		})
	}
}

// compareDecoders compares `waymark decode` with tshark.
func compareDecoders(t *testing.T, path, format string, least int) {
	t.Helper()
	records := decoded(t, path, format)
	if len(records) < least {
		t.Errorf("%d traces in the capture, want at least %d", len(records), least)
	}
	clock := record.Clock{Format: ioam.TimestampPOSIX}
	if format == "ptp" {
		clock = record.Clock{Format: ioam.TimestampPTP, TAIOffset: e2e.KernelTAIOffset()}
	}
	for name, n := range tsharktest.Compare(t, path, clock, records) {
		if n == 0 {
			t.Errorf("the capture has no %s: nothing was compared", name)
		}
	}
}

// decoded returns the records that `waymark decode` reads from a capture.
func decoded(t *testing.T, path, format string) []record.Trace {
	t.Helper()
	code, stdout, stderr := e2e.Waymark(
		t,
		"decode",
		"--json",
		"--timestamp-format",
		format,
		"--tai-offset",
		e2e.KernelTAIOffset().String(),
		path,
	)
	if code != 0 || stderr != "" {
		t.Fatalf("waymark decode: exit code %d, %s", code, stderr)
	}
	var records []record.Trace
	for line := range strings.Lines(stdout) {
		var r record.Trace
		if err := record.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}
