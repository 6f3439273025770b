// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/iproute2"
)

const observing = `node: {mode: observe, queue-delay: true}
interfaces: [{name: eth0}]
namespaces: [{id: 123}]
path-trace: {allow: [any]}
probes: {destinations: ["2001:db8::3"]}
`

// In mode observe, the file's check and the status say what works nevertheless, and how to see what
// would be done.
func TestModeObserve(t *testing.T) {
	code, stdout, stderr := runCLI(t, observing, "config", "check", "-")
	if code != 0 || !strings.Contains(stdout, "mode observe: no packet is changed; 'waymark agent run --config - --dry-run'") ||
		!strings.Contains(stdout, "at work as in mode full: probes, path-trace, node.queue-delay\n") {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
	if _, stdout, _ := runCLI(t, observing, "config", "check", "-", "--json"); !strings.Contains(stdout, `"mode":"observe"`) &&
		!strings.Contains(stdout, `"mode": "observe"`) ||
		!strings.Contains(stdout, "node.queue-delay") {
		t.Error(stdout)
	}
	if _, stdout, _ := runCLI(t, strings.Replace(observing, "observe", "full", 1), "config", "check", "-"); strings.Contains(stdout, "mode") {
		t.Error(stdout)
	}
	var b strings.Builder
	s := api.Status{ConfigFile: "/etc/waymark/node.yaml", Node: api.Node{Mode: "observe", StillActive: []string{"probes", "stamp"}}}
	if err := printStatus(&b, s, nil, time.Now(), columns.Screen{Width: 200}, false); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(
		text,
		"none is changed; at work as in mode full: probes, stamp\n"+
			"what the configuration would do:\nwaymark agent run --config /etc/waymark/node.yaml --dry-run\n",
	) {
		t.Error(text)
	}
}

// What a person copies stays one line, however narrow the screen is.
func TestStatusKeepsCommandsWhole(t *testing.T) {
	c, err := config.Parse("F", []byte(`interfaces: [{name: eth1, role: [egress]}]
namespaces: [{id: 123}]
encapsulations:
  - {name: core, interface: eth1, mode: encap, match: {destination: "2001:db8:a::/48"}, tunnel: {destination: "2001:db8:ff::3"},
    options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := api.Status{ConfigFile: "/etc/waymark/node-of-a-long-name.yaml", Node: api.Node{Mode: "observe"}, Encapsulations: c.Encapsulations}
	var b strings.Builder
	if err := printStatus(&b, s, nil, time.Now(), columns.Screen{Width: 60}, true); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"\nwaymark agent run --config /etc/waymark/node-of-a-long-name.yaml --dry-run\n",
		"\nroute " + iproute2.FormatRoute(s.Encapsulations[0]) + "\n",
	} {
		if len(want) < 62 || !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, copied) || !strings.Contains(text, "configuration /etc/waymark/node-of-a-long-name.yaml, loaded\n  ") {
		t.Errorf("%q", text)
	}
}
