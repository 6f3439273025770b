// SPDX-License-Identifier: Apache-2.0

package active

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/pathtrace/prober"
)

// Each wrong flag by itself: what is wrong, and what to give.
func TestTraceUsage(t *testing.T) {
	for args, want := range map[string]string{
		"now:here":                               `"now:here" is no IPv6 address or name of a node; want one such as 2001:db8::1`,
		"192.0.2.1":                              "is no IPv6 address or name of a node",
		"ff02::1":                                "is no IPv6 address or name of a node",
		"::1 --type ids,times":                   `"times" is no field of a trace; want one of ids, timestamps`,
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
		code, stdout, stderr := runCLI(t, append([]string{"trace"}, strings.Fields(args)...)...)
		if code != commandline.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("trace %s: code %d, stdout %q, stderr %q\nwant %q", args, code, stdout, stderr, want)
		}
	}
}

// The most likely cause comes first: what the probes show, then what they cannot.
func TestUnansweredCauses(t *testing.T) {
	c := prober.Config{Destination: netip.MustParseAddr("2001:db8::9"), Source: netip.MustParseAddr("2001:db8::1"), Namespace: 123}
	seen := func(hops int, said string) *paths.Report {
		r := &paths.Report{Broken: []paths.Broken{{}, {Error: said}}}
		for i := range hops {
			at := netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::1", i+1))
			r.Broken[1].Hops = append(r.Broken[1].Hops, paths.Hop{Position: i + 1, Address: &at})
		}
		return r
	}
	echo, keyed := c, c
	echo.Echo, keyed.Key = true, []byte("key")
	for _, tt := range []struct {
		name        string
		config      prober.Config
		report      *paths.Report
		own         bool
		replies     plain
		first, more string
		not         string
	}{
		{"an own address", c, seen(2, ""), true, 0, "it is an address of this node", "trace another node", "allow must have"},
		{"behind the edge", c, seen(2, ""), false, plainReplies, "they were seen last at 2001:db8:2::1: what follows it drops them, and the destination replies to echo requests, which have no IOAM but what a rule of this node inserts: it may be the edge of the domain", "trace a node inside", " is down"},
		{"behind a dead link", c, seen(2, ""), false, plainSilent, "they were seen last at 2001:db8:2::1: what follows it drops them, and the destination does not reply to echo requests either, which have no IOAM but what a rule of this node inserts: a link or a node after it may be down", "else it is the edge of the domain", "trace a node inside"},
		{"edge or dead link", c, seen(2, ""), false, plainUnknown, "they were seen last at 2001:db8:2::1: what follows it drops them: a link or a node that is down, or the edge", "", ""},
		{"a node that says why", c, seen(2, "2001:db8:2::1: no route to destination"), false, 0, "2001:db8:2::1: no route to destination; check path-trace in the configuration of the destination's agent", "", "seen last"},
		{"nothing came back", c, seen(0, ""), false, 0, "no node on the way replied", "allow must have 2001:db8::1, and if it has a key-file, give --key-file", "seen last"},
		{"not at the end yet", c, &paths.Report{Live: true}, false, 0, "check path-trace in the configuration of the destination's agent", "", "no node on the way"},
		{"with a key", keyed, seen(1, ""), false, 0, "they were seen last", "--key-file must hold the same", ""},
		{"echo requests", echo, seen(1, ""), false, 0, "they were seen last", "a route back to 2001:db8::1", "allow must have"},
		{"a wrong key", c, &paths.Report{Ignored: map[string]uint64{"mac_wrong": 3}}, false, 0, "answers have a wrong MAC", "", "allow must have"},
	} {
		causes, checks := unansweredCauses(tt.config, tt.report, tt.own, tt.replies)
		got := strings.Join(append(causes, checks...), "; ")
		if !strings.HasPrefix(got, tt.first) || !strings.Contains(got, tt.more) || tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	for advised, want := range map[bool]string{false: "a link or a node that is down", true: "what to check is above"} {
		got := noPathText(c, seen(2, ""), false, plainUnknown, advised)
		if !strings.Contains(got, "; they were seen last at 2001:db8:2::1") || !strings.Contains(got, want) ||
			strings.Contains(got, "allow must have") == advised {
			t.Errorf("advised %v: %s", advised, got)
		}
	}
	if got := noPathText(c, seen(2, ""), true, 0, true); !strings.HasSuffix(got, "trace another node") {
		t.Errorf("an own address: %s", got)
	}
	if !ownAddress(netip.MustParseAddr("::1")) || ownAddress(netip.MustParseAddr("2001:db8::9")) {
		t.Error("which addresses are this machine's")
	}
}

// A terminal without codes gets text.
func TestDumbTerminal(t *testing.T) {
	for term, dumb := range map[string]bool{"dumb": true, "": true, "xterm": false, "linux": false} {
		if commandline.IsDumb(term) != dumb {
			t.Errorf("%q: dumb %v", term, !dumb)
		}
	}
}
