// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/test/e2e"
)

// unknownToTshark is what tshark 4.0 notes of each Direct Export: it knows
// the kind and length of one in 0x31, and the length of one in 0x11.
const unknownToTshark = "Unknown Data (not interpreted)"

// tshark finds no error in packets with a Direct Export, alone and next to a
// trace, and finds the option in each.
func TestTsharkDirectExport(t *testing.T) {
	t.Parallel()
	e2e.CheckControl(t)
	const beside = "\n      - trace: {namespace: 123, type: 0xf80000, size: 60}"
	for _, tt := range []struct{ name, option, found string }{
		{"0x11", dex, "ipv6.opt.type == 0x11"},
		{"0x31", dex[:len(dex)-1] + ", option-type: 0x31}", "ipv6.opt.ioam.opt_type == 4"},
		{"beside a trace", dex + beside, "ipv6.opt.type == 0x11 && ipv6.opt.ioam.opt_type == 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// no exporter: the collector does not run
			l := e2e.Raise(t, directExports(t, dex, tt.option, strings.TrimSuffix(toCollector, "\n"), ""))
			leaving := e2e.StartWire(t, l, "athos", "eth1")
			const count = 5
			e2e.Send(t, l, "alpha",
				lab.Traffic{Kind: lab.KindPing, Count: count, Size: 56},
				lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
			leaving.Stop(t)
			for _, line := range tshark.Run(t, leaving.Path, e2e.Complaints,
				append(slices.Clone(e2e.AsData), "-e", "frame.number", "-e", "_ws.expert.message")...) {
				if _, message, _ := strings.Cut(line, "\t"); message != unknownToTshark {
					t.Errorf("tshark complains: %s", line)
				}
			}
			if n := len(tshark.Run(t, leaving.Path, tt.found, "-e", "frame.number")); n < 2*count {
				t.Errorf("tshark finds %d Direct Exports, want %d at least", n, 2*count)
			}
			checkDissected(t, leaving.Path, count)
		})
	}
}

// checkDissected reads the Direct Exports with the dissector that we package: each flow
// of count packets has its Sequence Numbers.
func checkDissected(t *testing.T, path string, count int) {
	t.Helper()
	sequences := map[string][]string{}
	for _, values := range e2e.Dissect(t, path, "ioam.type == 4", "ioam.namespace", "ioam.dex.extension_flags", "ioam.dex.flow_id",
		"ioam.dex.sequence") {
		if len(values) != 4 || values[0] != "123" || values[1] != "0xc0" {
			t.Errorf("the dissector reads %q", values)
			continue
		}
		sequences[values[2]] = append(sequences[values[2]], values[3])
	}
	full := 0
	for flow, numbers := range sequences {
		for i, number := range numbers {
			if number != strconv.Itoa(i) {
				t.Errorf("flow %s: the dissector reads the Sequence Numbers %v", flow, numbers)
				break
			}
		}
		if len(numbers) == count {
			full++
		}
	}
	if full < 2 {
		t.Errorf("the dissector finds the flows %v, want two of %d packets", sequences, count)
	}
}
