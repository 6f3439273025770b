// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// full uses every key.
const full = `node: {id: 2, id-wide: 22222222, timestamp-format: ntp, compatibility: default}
interfaces:
  - {name: eth0, id: 201, id-wide: 201201, role: [ingress, egress], boundary: strip, attach: xdp, place: after cil_from_netdev, forwarding: stack}
  - {name: "no", id: 0xca, role: []}
namespaces:
  - {id: 123, data: 0xdeadbeef, data-wide: 0xcafec0caf00dc0de, schema: {id: 777, data: "rack\t7 é"}, remove: true}
encapsulations:
  - name: core
    interface: eth0
    match: {destination: 2001:db8:2::/64, source: "::/0", next-header: udp, source-port: 1000-2000, destination-port: 53, traffic-class: 184, flow-label: 0xfffff}
    frequency: 1/100
    mode: auto
    tunnel: {source: 2001:db8:1::2, destination: 2001:db8:3::1}
    options:
      - trace: {namespace: 123, type: 0xfff002, size: 80}
decapsulations:
  - {tunnel-destination: 2001:db8:3::1}
  - {tunnel-destination: 2001:db8:3::2, sources: ["2001:db8:ff::/48", "2001:db8:1::2"]}
  - {tunnel-destination: 2001:db8:3::3, sources: ["::/0"], bare: false}
  - {tunnel-destination: 2001:db8:3::4, bare: true}
tunnel-destinations: [2001:db8:4::1, 2001:db8:4::2]
export: [{kind: jsonl, path: /tmp/x y}]
collectors: ["udp://[2001:db8::9]:4000", "tls://collector.example:4740"]
metrics: {listen: "127.0.0.1:9598"}
strict: true
`

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// same compares configurations apart from their place in a file.
func same(a, b *Config) bool {
	x, y := *a, *b
	x.source, y.source = nil, nil
	return reflect.DeepEqual(x, y)
}

func TestParse(t *testing.T) {
	c := mustParse(t, full)
	e := c.Encapsulations[0]
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"node id", *c.Node.ID, uint32(2)},
		{"interface 1's name", c.Interfaces[1].Name, "no"},
		{"interface 1's id", *c.Interfaces[1].ID, uint16(0xca)},
		{"interface 1's default boundary", c.Interfaces[1].Boundary.Default, uint8(0)},
		{"namespace data", c.Namespaces[0].Data, uint32(0xdeadbeef)},
		{"schema data", c.Namespaces[0].Schema.Data, "rack\t7 é"},
		{"frequency's n", e.Frequency.N, uint32(100)},
		{"next header", *e.Match.NextHeader, uint8(17)},
		{"source ports", e.Match.SourcePort.To, uint16(2000)},
		{"trace type", e.Options[0].Trace.Type, uint32(0xfff002)},
		{"strict", c.Strict, true},
	} {
		got := reflect.ValueOf(check.got).Convert(reflect.TypeOf(check.want)).Interface()
		if got != check.want {
			t.Errorf("%s is %v, want %v", check.what, got, check.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, "\ufeff%YAML 1.2\n---\ninterfaces: [{name: eth0}]\nnamespaces:\nnode:\n")
	want := `node:
  mode: full
  timestamp-format: posix
  next-hops: 16384
  flow-seed: 0x5741594d41524b36
  flows: 4096
  export-interval: 10s
  export-limit: 1/100
  export-rate: 10000
  loopback-limit: 1/100
  loopback-rate: 100
  delays: none
  kernel-events: false
  queue-delay: false
  receive-offload: true
  compatibility: default
interfaces:
  - name: eth0
    role: []
    boundary: drop
    attach: auto
    place: first
    forwarding: stack
namespaces: []
encapsulations: []
decapsulations: []
export: []
metrics:
  listen: "[::1]:9598"
  delay-series: 256
strict: false
`
	if got := string(c.Marshal()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A value that is true, false or a word is the same in the file and in JSON.
func TestTrueFalseOrWord(t *testing.T) {
	for text, want := range map[string]struct{ yaml, json string }{
		"true": {"true", "true"}, "false": {"false", "false"}, "alarm": {"alarm", `"alarm"`}, `"alarm"`: {"alarm", `"alarm"`},
	} {
		c := mustParse(t, "node: {queue-delay: "+text+"}\n")
		if out, err := c.MarshalJSON(); err != nil || !strings.Contains(string(out), `"queue_delay":`+want.json+",") {
			t.Errorf("%s: %s, %v", text, out, err)
		}
		out := string(c.Marshal())
		if !strings.Contains(out, "queue-delay: "+want.yaml+"\n") || mustParse(t, out).Node.QueueDelay != c.Node.QueueDelay {
			t.Errorf("%s: %s", text, out)
		}
	}
	for _, text := range []string{"alarms", "1", "[true]"} {
		_, err := Parse("F", []byte("node: {queue-delay: "+text+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "write one of false, true, alarm") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A node that only receives its kernel's events serves no interface.
func TestKernelEvents(t *testing.T) {
	for text, want := range map[string]bool{
		"node: {kernel-events: true}":                                     true,
		"node: {kernel-events: false}":                                    false,
		"node: {id: 2}":                                                   false,
		"node: {kernel-events: true}\nexport: [{kind: jsonl}]":            true,
		"node: {kernel-events: true, timestamp-format: posix, flows: 64}": true,
	} {
		c := mustParse(t, text)
		if c.Node.KernelEvents != want || !same(c, mustParse(t, string(c.Marshal()))) {
			t.Errorf("%s: %v, or written otherwise than read", text, c.Node.KernelEvents)
		}
	}
}

// Every default of the tags must be a value of its type.
func TestDefaultsAreValid(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for _, f := range yamlfile.Fields(typ) {
			inner := typ.FieldByIndex(f.Index).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			c, scalar := codecs[inner]
			switch {
			case scalar && f.HasDefault && f.Default != "[]":
				if _, err := c.Parse(f.Default); err != nil {
					t.Errorf("%s.%s: default %q: %v", typ, f.Key, f.Default, err)
				}
			case !scalar:
				walk(inner)
			}
			if scalar && !f.HasDefault && !f.Optional && !f.Required {
				t.Errorf("%s.%s has no default, is not required, and nothing says what its absence means", typ, f.Key)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

// Each key has a text, and each text a key.
func TestTextsOfKeys(t *testing.T) {
	for _, problem := range nodeFile.CheckTexts(&Config{}, texts()) {
		t.Error(problem)
	}
}

func TestMarshalRoundTrip(t *testing.T) {
	c := mustParse(t, full)
	if again := mustParse(t, string(c.Marshal())); !same(c, again) {
		t.Errorf("YAML read again differs:\n%s", again.Marshal())
	}
	text, err := c.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, string(text)); !same(c, again) {
		t.Errorf("JSON read again differs:\n%s", text)
	}
	for _, part := range []string{`"data":"0xdeadbeef"`, `"type":"0xfff002"`, `"id":2,`, `"source_port":"1000-2000"`, `"destination_port":53`,
		`"strict":true`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("JSON lacks %s:\n%s", part, text)
		}
	}
}

func TestFragmentsAsJSON(t *testing.T) {
	c := mustParse(t, full)
	var ns Namespace
	var e Encapsulation
	text, _ := c.Namespaces[0].MarshalJSON()
	if err := ns.UnmarshalJSON(text); err != nil || !reflect.DeepEqual(ns, c.Namespaces[0]) {
		t.Errorf("%s: %+v, %v", text, ns, err)
	}
	text, _ = c.Encapsulations[0].MarshalJSON()
	if err := e.UnmarshalJSON(text); err != nil || !reflect.DeepEqual(e, c.Encapsulations[0]) {
		t.Errorf("%s: %+v, %v", text, e, err)
	}
	err := ns.UnmarshalJSON([]byte(`{"id": 70000, "dat": 1}`))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 2 {
		t.Errorf("a namespace with two errors: %v", err)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %q, %v", files, err)
	}
	for _, file := range files {
		c, err := load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if again := mustParse(t, string(c.Marshal())); !same(c, again) {
			t.Errorf("%s read, written and read again differs:\n%s", file, c.Marshal())
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("# comment\n", MaxFileSize/10+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(large); err == nil || !strings.HasPrefix(err.Error(), large+":1:1: the file is larger than") {
		t.Errorf("a file that is too large: %v", err)
	}
	if _, err := Parse("F", []byte("flows: ["+strings.Repeat("1,", yamlfile.MaxValues)+"]")); err == nil ||
		err.Error() != "F:1:16777222: the file has more than 8388608 values; remove what the node does not need" {
		t.Errorf("a file with too many values: %v", err)
	}
	if _, err := load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if _, err := load(dir); err == nil {
		t.Error("a directory was loaded")
	}
}

// A file has room for as many measured flows as a node has by default, with the longest lists.
func TestRoomForFlows(t *testing.T) {
	flow := func(i, segments int) string {
		list := make([]string, segments)
		for s := range list {
			list[s] = fmt.Sprintf(`"fc00:%x:%x::1234"`, s, i)
		}
		return fmt.Sprintf("  - {name: flow%d, direction: transit, source: 2001:db8:ff::1, segments: [%s]}\n", i, strings.Join(list, ", "))
	}
	longest := flow(model.DefaultMeasuredFlows, model.MaxSegments)
	values := 0
	for _, before := range []string{"\n", ",", "[", "{", ": ", "- "} { // what values begin after
		values += strings.Count(longest, before)
	}
	if values*model.DefaultMeasuredFlows > yamlfile.MaxValues {
		t.Errorf("%d flows have too many values", model.DefaultMeasuredFlows)
	}
	if longest := len(longest); longest*model.DefaultMeasuredFlows > MaxFileSize {
		t.Errorf("%d flows of %d bytes do not fit %d", model.DefaultMeasuredFlows, longest, MaxFileSize)
	}
	var text strings.Builder
	text.WriteString("interfaces: [{name: eth0}]\nflows:\n")
	const many = 10_000
	for i := range many {
		text.WriteString(flow(i, 2))
	}
	if c := mustParse(t, text.String()); text.Len() < 1<<20 || len(c.Flows) != many {
		t.Errorf("%d flows in %d bytes", len(c.Flows), text.Len())
	}
}

func load(path string) (*Config, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// A lab topology is distinguished from a configuration with a wrong key.
func TestTopologyIsRecognised(t *testing.T) {
	checkFaults(t, []faultCase{
		{"topology", "name: pair\nnodes:\n  - name: a\nlinks: []", []string{
			`1:1: this is a lab topology, not an agent's configuration; start it with 'waymark lab up F', which checks it, its agents' configurations included`}},
		{"misspelt node", "nodes: {id: 1}", []string{`1:1: unknown key "nodes" in the file; did you mean "node"?`}},
	})
}

// For a file with every kind of operator error, all are reported at once, each with its
// place and a cure.
func TestFaultsTogether(t *testing.T) {
	checkFaults(t, []faultCase{{"everything", `colour: red
interfaces:
  - {name: eth0, id: 7, role: [egress]}
  - {name: eth1, id: 7}
namespaces: [{id: 123}]
encapsulations:
  - name: core
    interface: eth0
    mode: inline
    frequency: 0/0
    options:
      - trace: {namespace: 123, type: 0xf00000, size: 62}
      - trace: {namespace: 123, type: 0x800800, size: 4}
  - name: core
    interface: eth0
    tunnel: {source: 2001:db8::1}
    options: [{trace: {namespace: 123, type: 0xf00000, size: 64}}]
decapsulations:
  - tunnel-destination: 192.0.2.1
`, []string{
		`1:1: unknown key "colour" in the file; use the keys node, interfaces, namespaces, encapsulations, decapsulations, tunnel-destinations, export, collectors, measurement, names, names-from, flows, stamp, responders, path-trace, probes, metrics, history, strict`,
		`4:22: interfaces[1].id: 7 is also the id of interfaces[0]; give each interface its own id`,
		`10:16: encapsulations[0].frequency: 0/0 is not possible; write K/N with 1 ≤ K ≤ N ≤ 1000000, such as 1/100, or a percentage such as 10%`,
		`12:55: encapsulations[0].options[0].trace.size: 62 bytes are not possible; use a multiple of 4 in 4…244`,
		`13:39: encapsulations[0].options[1].trace.type: trace type not usable: 0x800800 has undefined bits (12–21, mask 0x000ffc); use bits of 0xfff002`,
		`14:11: encapsulations[1].name: "core" is also the name of encapsulations[0]; give each encapsulation its own name`,
		`16:13: key "destination" is missing in encapsulations[1].tunnel; add it: an IPv6 address such as 2001:db8::1`,
		`19:25: decapsulations[0].tunnel-destination: 192.0.2.1 is an IPv4 address; write an IPv6 address such as 2001:db8::1`,
	}}})
}

// A file with very many errors has a bounded list of them, and a count of the others.
func TestFaultsAreBounded(t *testing.T) {
	for text, wants := range map[string]string{
		"flows: [" + strings.Repeat("{}, ", 10_000) + "{}]\n":                              "there are more than 949 more errors; correct these first",
		"namespaces:\n" + strings.Repeat("- {id: 1}\n", 10_000):                            "there are more than 949 more errors; correct these first",
		"interfaces:\n" + strings.Repeat("- {name: a}\n", 52):                              "there is one more error; correct these first",
		"namespaces:\n" + strings.Repeat("- {id: 1}\n", 100):                               "there are 49 more errors; correct these first",
		"node: {id: 1}\nnamespaces: [" + strings.Repeat("{id: 70000}, ", 100) + "{id: 1}]": "there are 50 more errors; correct these first",
	} {
		_, err := Parse("f.yaml", []byte(text))
		var faults Faults
		if !errors.As(err, &faults) || len(faults) != yamlfile.MostFaults+1 || !strings.Contains(err.Error(), wants) {
			t.Errorf("%.40s: %d errors: %.200v … %s", text, len(faults), err, faults[len(faults)-1])
		}
		if faults[50].Line < faults[49].Line {
			t.Errorf("%.40s: the count is at line %d, the last error at %d", text, faults[50].Line, faults[49].Line)
		}
	}
}

// Neither is an error longer than a person reads, whatever the file holds.
func TestFaultTextsAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 20_000)
	for _, text := range []string{
		long, long + ": 1\n", "node: {" + long + ": 1}\n", "node: {id: \"" + long + "\"}\n", "node: {id: " + strings.Repeat("9", 40_000) + "}\n",
		"node:\n  id: |\n" + strings.Repeat("    "+long+"\n", 10), strings.Repeat("\x00", 8<<20), strings.Repeat("a", 31<<20), "# " + strings.Repeat("c", 31<<20),
		"node: {id: \"" + strings.Repeat("a", 31<<20) + "\"}\n",
	} {
		_, err := Parse("f.yaml", []byte(text))
		if err == nil || len(err.Error()) > 3*yamlfile.MostText || !utf8.ValidString(err.Error()) {
			t.Errorf("%.20q: %d octets: %.300v", text, len(fmt.Sprint(err)), err)
		}
	}
}

// Delays are counted only where the file says so.
func TestDelays(t *testing.T) {
	for text, want := range map[string]uint32{"node: {id: 2}": 0, "node: {delays: none}": 0, "node: {delays: 1/1}": 1,
		"node: {delays: 1/16}": 16} {
		c := mustParse(t, text)
		if got := c.Anywhere().Delays; got != want || !same(c, mustParse(t, string(c.Marshal()))) {
			t.Errorf("%s: %d, or written otherwise than read", text, got)
		}
	}
	for _, text := range []string{"node: {delays: 2/16}", "node: {delays: 1/0}", "node: {delays: true}"} {
		if _, err := Parse("f", []byte(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
