// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// statusOfTwo is the status of a node with an interface and one that is missing.
func statusOfTwo() api.Status {
	return api.Status{
		Version: "1.0", Agent: "netns-7", PID: 42, ConfigFile: "/etc/waymark/node.yaml", Modified: true,
		Started: instant.Of(time.Unix(0, 0)), Loaded: instant.Of(time.Unix(60, 0)),
		Node: api.Node{Name: "gamma", ID: 2, IDWide: uint64(ioam.NodeIDWideUnavailable), TimestampFormat: "posix", Compatibility: "default"},
		Interfaces: []api.Interface{
			{Name: "eth0", Index: 2, ID: 201, Roles: []string{"ingress", "egress"}, Boundary: "drop", Forwarding: "fast", MTU: 1500,
				IngressHook: "xdp", EgressHook: "tcx",
				Ingress: map[string]uint64{"trace_filled": 12, "no_ioam": 3}, Egress: map[string]uint64{"encap_inserted": 5}, RecordsWritten: 4,
				RecordsLost: 1,
				Rates: &api.Rates{Over: 10e9, Ingress: map[string]float64{"trace_filled": 812.4, "no_ioam": 0.26}, Egress: map[string]float64{"encap_inserted": 512_345},
					Step: 30e9, InLast: []float64{0, 10, 20, 40}, OutLast: []float64{0, 0, 0, 40}},
				Postcards: 6, ExportsSuppressed: 7, FlowsEvicted: 8, SequencesEvicted: 9},
			{Name: "eth9", Boundary: "strip", Forwarding: "stack"},
		},
		Records: api.Records{Read: 4, Sinks: []api.Sink{{Name: "jsonl:/x", Written: 3, Failed: 1,
			Queued: 2, Error: "disk full", Cure: "remove files"},
			{Name: "ipfix:udp://[::1]:4739", Written: 5, Queued: 6, Messages: 7, Unsure: 2, Connected: new(true)},
			{Name: "ipfix:tls://[::1]:4740", Queued: 8, Error: "connection refused", Connected: new(false)}},
			KernelEvents: &api.KernelEvents{Received: 10, Malformed: 11, Lost: 12}},
		Warnings: []health.Warning{health.New(health.InterfaceMissing, "eth9", "interface eth9 is missing", "create it")},
	}
}

// Wide and verbose, the status has everything.
func TestPrintStatus(t *testing.T) {
	s := statusOfTwo()
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	var b strings.Builder
	if err := printStatus(&b, s, nil, time.Unix(3661, 0), columns.Screen{}, true); err != nil {
		t.Fatal(err)
	}
	want := `agent netns-7, process 42, version 1.0, up 1h1m1s
configuration /etc/waymark/node.yaml, loaded 1970-01-01 00:01:00, changed at runtime since
node gamma, id 2, wide -, timestamps posix, compatibility default

warning: interface_missing (eth9): a configured interface is missing (error if it is an edge of the domain)
  interface eth9 is missing
  cure: create it

INTERFACE  INDEX  ID   ROLE            IN/S  OUT/S  LAST 10 MIN  BOUNDARY  INGRESS  EGRESS  FORWARDS  MTU   RECORDS  LOST
eth0       2      201  ingress,egress   813   512k  ▁▂▃█         drop      xdp      tcx     fast      1500        4     1
eth9       -      -    missing            -      -  -            strip     -        -       stack     -           -     -

INTERFACE  HOOK     OUTCOME         COUNT  PER SECOND
eth0       ingress  no_ioam             3         0.3
eth0       ingress  trace_filled       12         812
eth0       egress   encap_inserted      5        512k

INTERFACE  POSTCARDS  SUPPRESSED  FLOWS EVICTED  SEQUENCES EVICTED
eth0       6          7           8              9

records read 4, malformed 0; observers 0, dropped for them 0
events of the kernel's own IOAM read 10, malformed 11, lost 12
exporter jsonl:/x: written 3, dropped 0, failed 1, queued 2 (disk full; remove files)
exporter ipfix:udp://[::1]:4739: connected, written 5, dropped 0, failed 0, queued 6, messages 7, at most 2 unread when a connection broke
exporter ipfix:tls://[::1]:4740: not connected, written 0, dropped 0, failed 0, queued 8, messages 0 (connection refused)
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// It fits 80 columns, the warnings first.
func TestPrintStatusInLittleRoom(t *testing.T) {
	s := statusOfTwo()
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	var b strings.Builder
	const narrow = `agent netns-7, process 42, version 1.0, up 1h1m1s
configuration /etc/waymark/node.yaml, loaded 1970-01-01 00:01:00, changed at
  runtime since
node gamma, id 2, wide -, timestamps posix, compatibility default

warning: interface_missing (eth9): a configured interface is missing (error if
  it is an edge of the domain)
  interface eth9 is missing
  cure: create it

INTERFACE  ROLE            IN/S  OUT/S  LAST 10 MIN  BOUNDARY  RECORDS  LOST
eth0       ingress,egress   813   512k  ▁▂▃█         drop            4     1
eth9       missing            -      -  -            strip           -     -

INTERFACE  HOOK     OUTCOME         COUNT  PER SECOND
eth0       ingress  no_ioam             3         0.3
eth0       ingress  trace_filled       12         812
eth0       egress   encap_inserted      5        512k

records read 4, malformed 0; observers 0, dropped for them 0
events of the kernel's own IOAM read 10, malformed 11, lost 12
exporter jsonl:/x: written 3, dropped 0, failed 1, queued 2 (disk full; remove
  files)
exporter ipfix:udp://[::1]:4739: connected, written 5, dropped 0, failed 0,
  queued 6, messages 7, at most 2 unread when a connection broke
exporter ipfix:tls://[::1]:4740: not connected, written 0, dropped 0, failed 0,
  queued 8, messages 0 (connection refused)
`
	if err := printStatus(&b, s, nil, time.Unix(3661, 0), columns.Screen{Width: 80}, false); err != nil || b.String() != narrow {
		t.Errorf("%v: got\n%s\nwant\n%s", err, b.String(), narrow)
	}
	b.Reset()
	if err := printStatus(&b, s, nil, time.Unix(3661, 0), columns.Screen{Width: 80, Colour: true}, false); err != nil ||
		!strings.Contains(b.String(), "\n\x1b[33mwarning\x1b[0m: interface_missing") {
		t.Errorf("%v: got\n%s", err, b.String())
	}
}
