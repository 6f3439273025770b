// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
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
			"what the configuration would do: waymark agent run --config /etc/waymark/node.yaml --dry-run\n",
	) {
		t.Error(text)
	}
}
