// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// Each wrong flag by itself: what is wrong, and what to give.
func TestTraceUsage(t *testing.T) {
	for args, want := range map[string]string{
		"nowhere":                                `"nowhere" is no IPv6 address of a node; want one such as 2001:db8::1`,
		"192.0.2.1":                              "is no IPv6 address of a node",
		"ff02::1":                                "is no IPv6 address of a node",
		"fe80::1":                                "fe80::1 is valid on one link only; name its interface: fe80::1%eth0",
		"fe80::1%lo --icmp":                      "--icmp: fe80::1%lo is valid on one link only",
		"::1 --paths 0":                          "--paths 0: want a number from 1 to 256",
		"::1 --paths 257":                        "--paths 257: want a number from 1 to 256",
		"::1 --count 0":                          "--count 0: want a number from 1 to 100000",
		"::1 --port 65536":                       "--port 65536: want",
		"::1 --max-hops 255":                     "--max-hops 255: want a number from 0 to 254",
		"::1 --namespace 65536":                  "--namespace 65536: want",
		"::1 --interval 1us":                     "--interval 1µs: want a time from 100µs to 1m",
		"::1 --timeout 0s":                       "--timeout 0s: want a time from 1ms to 1m0s",
		"::1 --interval 100us --timeout 7s":      "too many probes would wait for replies; want at most 6.5536s",
		"::1 --type 0":                           "asks for no data; want one such as 0xf80000",
		"::1 --type x":                           "--type",
		"::1 --type 0xf80002":                    "asks for snapshots (bit 22)",
		"::1 --hops 13":                          "--hops 13: want a number from 0 to 12, which is what fits with --type 0xf80000",
		"::1 --csv --dot":                        "--json, --csv and --dot are different outputs; give one",
		"::1 --live --csv":                       "--live shows the text for people; remove it, or --json, --csv or --dot",
		"::1 --source 192.0.2.1":                 "--source",
		"::1 --namespace 1 --timestamp-format x": "--timestamp-format",
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"trace"}, strings.Fields(args)...)...)
		if code != commandline.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("trace %s: code %d, stdout %q, stderr %q\nwant %q", args, code, stdout, stderr, want)
		}
	}
}
