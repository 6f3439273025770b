// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const smallTopology = `name: small
nodes:
  - name: a
    routes:
      - {to: 2001:db8:9::/64, via: 2001:db8:1::2}
  - name: b
    addresses: 2001:db8:9::1/64
    agent:
      # a comment
      node: {id: 7, id-wide: 0x11}
      interfaces:
        - {name: eth0, id: 70, role: []}
      namespaces:
        - {id: 123, data: 0xdeadbeef}
links:
  - ends:
      - {node: a, interface: eth0, addresses: 2001:db8:1::1/64}
      - {node: b, interface: eth0, addresses: 2001:db8:1::2/64}
traffic:
  - {kind: udp, from: a, to: b, size: 64}
`

func TestParse(t *testing.T) {
	top, err := Parse("small.yaml", []byte(smallTopology))
	if err != nil {
		t.Fatal(err)
	}
	b := top.Node("b")
	if b == nil || b.Forwarding || b.Agent == nil {
		t.Fatalf("node b is %+v; want a host with an agent", b)
	}
	want := "node: {id: 7, id-wide: 0x11}\ninterfaces:\n  - {name: eth0, id: 70, role: []}\nnamespaces:\n  - {id: 123, data: 0xdeadbeef}\n"
	if got := string(b.Agent.Config); got != want {
		t.Errorf("the agent's configuration is\n%s\nwant\n%s", got, want)
	}
	settings := b.Agent.Settings
	if settings == nil || *settings.Node.ID != 7 || len(settings.Interfaces) != 1 || settings.Interfaces[0].Name != "eth0" {
		t.Errorf("the agent's settings are %+v", settings)
	}
	if a, ok := top.Address("b"); !ok || a != netip.MustParseAddr("2001:db8:1::2") {
		t.Errorf("b is reached at %v", a)
	}
	if mtu := top.Links[0].MTU; mtu != defaultMTU {
		t.Errorf("the link's MTU is %d", mtu)
	}
}

func TestParseFaults(t *testing.T) {
	for _, tt := range []struct {
		name     string
		old, new string // one mutation of smallTopology
		want     []string
	}{
		{"unknown key", "name: small", "name: small\ncolour: red", []string{`:2: the topology has no key "colour"; it has description, links, name, nodes, permanent-neighbours, traffic`}},
		{"unknown key of a node", "  - name: b\n", "  - name: b\n    speed: 3\n", []string{`:7: a node has no key "speed"`}},
		{"not YAML", "nodes:", "nodes: [", []string{":"}},
		{"key twice", "name: small", "name: small\nname: large", []string{":2: not YAML: mapping key"}},
		{"no name", "name: small\n", "", []string{":1: the topology has no name"}},
		{"node twice", "  - name: b\n", "  - name: a\n", []string{":6: two nodes are called a"}},
		{"bad node name", "  - name: b\n", "  - name: b/c\n", []string{`:6: node name "b/c" is not a name`}},
		{"IPv4 address", "2001:db8:9::1/64", "192.0.2.1/24", []string{`:7: address "192.0.2.1/24" is not an IPv6 address`}},
		{"address twice", "2001:db8:1::2/64", "2001:db8:1::1/64", []string{":18: address 2001:db8:1::1 of b belongs to a already"}},
		{"host bits", "2001:db8:9::/64", "2001:db8:9::5/64", []string{":5: route to 2001:db8:9::5/64 has bits set behind the prefix; write 2001:db8:9::/64"}},
		{"next hop elsewhere", "via: 2001:db8:1::2", "via: 2001:db8:5::2", []string{":5: next hop 2001:db8:5::2 is on no link of a"}},
		{"no next hop", ", via: 2001:db8:1::2", "", []string{":5: route to 2001:db8:9::/64 of a has no next hop"}},
		{"unknown node", "{node: b, interface", "{node: c, interface", []string{":12: the agent of b serves interface eth0", ":18: no node is called c"}},
		{"one end", "      - {node: b, interface: eth0, addresses: 2001:db8:1::2/64}\n", "", []string{":17: a link has two ends"}},
		{"three ends", "traffic:", "      - {node: b, interface: eth1}\ntraffic:", []string{":17: ends has 3 entries; the limit is 2"}},
		{"interface twice", "node: b, interface: eth0", "node: a, interface: eth0", []string{":17: a link joins", ":18: a has an interface eth0 already"}},
		{"long interface name", "{node: b, interface: eth0", "{node: b, interface: abcdefghijklmnop", []string{`:18: interface "abcdefghijklmnop" is not a name; use at most 15`}},
		{"agent's interface", "- {name: eth0, id: 70", "- {name: eth9, id: 70", []string{":12: the agent of b serves interface eth9"}},
		{"agent's own fault", "id: 70, role: []", "id: 70, role: [] , colour: red", []string{":12: agent: "}},
		{"agent's missing key", "{id: 123, data", "{data", []string{":14: agent: "}},
		{"mtu", "  - ends:", "  - mtu: 100\n    ends:", []string{":16: mtu must be a whole number from 1280 to 65535"}},
		{"kind", "kind: udp", "kind: sctp", []string{`:20: traffic of kind "sctp" is unknown`}},
		{"small datagram", "size: 64", "size: 8", []string{":20: udp traffic numbers its datagrams; size must be at least 24"}},
		{"traffic to nowhere", "to: b, size", "to: z, size", []string{":20: traffic names the node z"}},
		{"no value", "name: small", "name:", []string{":1: the topology: name has no value"}},
		{"empty", smallTopology, "", []string{":1: a topology is one YAML document"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := strings.Replace(smallTopology, tt.old, tt.new, 1)
			if source == smallTopology {
				t.Fatal("the mutation changes nothing")
			}
			_, err := Parse("bad.yaml", []byte(source))
			var faults *Faults
			if !errors.As(err, &faults) {
				t.Fatalf("Parse gave %v; want faults", err)
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(line string) bool { return strings.HasPrefix(line, "bad.yaml"+want) }) {
					t.Errorf("no fault begins with %q in\n%v", want, err)
				}
			}
		})
	}
}

// Every mistake is named in one run.
func TestParseNamesAllFaults(t *testing.T) {
	source := strings.NewReplacer("via: 2001:db8:1::2", "via: nonsense", "id: 70", "id: 70000", "kind: udp", "kind: tcpp").Replace(smallTopology)
	_, err := Parse("bad.yaml", []byte(source))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Parse gave %v", err)
	}
	var lines []int
	for _, f := range faults.Faults {
		lines = append(lines, f.Line)
	}
	for _, want := range []int{5, 12, 20} {
		if !slices.Contains(lines, want) {
			t.Errorf("no fault in line %d:\n%v", want, err)
		}
	}
}

func TestBuiltin(t *testing.T) {
	names := BuiltinNames()
	if !slices.Equal(names, []string{"ecmp", "line"}) {
		t.Errorf("built in are %v", names)
	}
	for _, name := range names {
		top, err := Builtin(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if top.Name != name {
			t.Errorf("%s calls itself %s", name, top.Name)
		}
	}
	if _, err := Builtin("ring"); err == nil || !strings.Contains(err.Error(), "ecmp, line") {
		t.Errorf("an unknown name gives %v; want the names there are", err)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.yaml")
	if err := os.WriteFile(path, []byte(smallTopology), 0o600); err != nil {
		t.Fatal(err)
	}
	if top, err := Load(path); err != nil || top.Name != "small" {
		t.Errorf("Load of a file gave %v, %v", top, err)
	}
	if top, err := Load("line"); err != nil || top.Name != "line" {
		t.Errorf("Load of a name gave %v, %v", top, err)
	}
	for _, bad := range []string{"./nowhere.yaml", t.TempDir()} {
		if _, err := Load(bad); err == nil {
			t.Errorf("Load(%q) succeeded", bad)
		}
	}
}

// The topology in the documentation is one.
func TestDocumentedTopology(t *testing.T) {
	text, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml topology\n")
	source, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/lab.md shows no topology")
	}
	top, err := Parse("lab.md", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Nodes) != 2 || len(top.Traffic) != 3 {
		t.Errorf("read %+v", top)
	}
}
