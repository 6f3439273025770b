// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
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

// agentOfB is the part of smallTopology that errors of form need to replace.
const agentOfB = `    agent:
      # a comment
      node: {id: 7, id-wide: 0x11}
      interfaces:
        - {name: eth0, id: 70, role: []}
      namespaces:
        - {id: 123, data: 0xdeadbeef}
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

// An error names its place; errors that only follow from it are not reported.
func TestParseFaults(t *testing.T) {
	for _, tt := range []mutation{
		{"unknown key", "name: small", "name: small\ncolour: red", `2:1: the topology has no key "colour"; it has description, links, name, nodes, permanent-neighbours, traffic`},
		{"unknown key of a node", "  - name: b\n", "  - name: b\n    speed: 3\n", `7:5: a node has no key "speed"; it has addresses, agent, forwarding, name, routes, segment-routing, tunnel-source`},
		{"not YAML", "nodes:", "nodes: [", `15:1: not YAML: ',' or ']' must be specified`},
		{"key twice", "name: small", "name: small\nname: large", `2:1: not YAML: mapping key "name" already defined at [1:1]`},
		{"no name", "name: small\n", "", `1:1: the topology has no name; add name: NAME`},
		{"no nodes", smallTopology, "name: small\nnodes: []", `2:8: the topology has no nodes; list them under nodes`},
		{"nodes under another key", "nodes:", "node:", `2:1: the topology has no key "node"; it has description, links, name, nodes, permanent-neighbours, traffic`},
		{"links under another key", "links:", "link:", `15:1: the topology has no key "link"; it has description, links, name, nodes, permanent-neighbours, traffic`},
		{"node twice", "  - name: b\n", "  - name: a\n", `6:11: two nodes are called a; rename one`},
		{"node without name", "  - name: b\n    addresses", "  - addresses", `6:5: a node has no name; add name: NAME`},
		{"misspelt key of a name", "  - name: b\n", "  - nam: b\n", `6:5: a node has no key "nam"; it has addresses, agent, forwarding, name, routes, segment-routing, tunnel-source`},
		{"name without value", "  - name: b\n", "  - name:\n", `6:5: a node: name has no value; give one or remove the key`},
		{"list as a name", "  - name: b\n", "  - name: [b]\n", `6:11: node name must be one value (quote an address inside braces or brackets)`},
		{"bad node name", "  - name: b\n", "  - name: b/c\n", `6:11: node name "b/c" is not a name; use at most 32 letters, digits, - and _`},
		{"text as a node", "  - name: b\n", "  - b\n  - name: c\n", `6:5: a node must be a mapping of keys to values`},
		{"IPv4 address", "2001:db8:9::1/64", "192.0.2.1/24", `7:16: address "192.0.2.1/24" is not an IPv6 address with a prefix length; write one such as 2001:db8::1/64`},
		{"bad address of a link", "2001:db8:1::1/64", "2001:db8:1::1", `17:47: address "2001:db8:1::1" is not an IPv6 address with a prefix length; write one such as 2001:db8::1/64`},
		{"address twice", "2001:db8:1::2/64", "2001:db8:1::1/64", `18:16: address 2001:db8:1::1 of b already belongs to a; use another`},
		{"host bits", "2001:db8:9::/64", "2001:db8:9::5/64", `5:14: route to 2001:db8:9::5/64 has bits set after the prefix; write 2001:db8:9::/64`},
		{"next hop elsewhere", "via: 2001:db8:1::2", "via: 2001:db8:5::2", `5:14: next hop 2001:db8:5::2 is on no link of a; use a neighbour's address`},
		{"no next hop", ", via: 2001:db8:1::2", "", `5:14: a route has no next hop; add via: ADDRESS`},
		{"no next hop in a list", "via: 2001:db8:1::2", "via: []", `5:36: a route has no next hop; add via: ADDRESS`},
		{"no destination", "to: 2001:db8:9::/64, ", "", `5:9: a route has no destination; add to: PREFIX`},
		{"unknown node", "{node: b, interface", "{node: c, interface", `18:16: no node is called c; add it under nodes`},
		{"one end", "      - {node: b, interface: eth0, addresses: 2001:db8:1::2/64}\n", "", `17:7: a link has two ends; list both under ends`},
		{"three ends", "traffic:", "      - {node: b, interface: eth1}\ntraffic:", `17:7: ends has 3 entries; the limit is 2`},
		{"end without interface", "node: b, interface: eth0,", "node: b,", `18:16: an end of a link needs a node and an interface`},
		{"both ends at one node", "node: b, interface: eth0", "node: a, interface: eth1", `17:7: a link joins two nodes; both ends are at a`},
		{"interface twice", "traffic:", "  - ends:\n      - {node: a, interface: eth0}\n      - {node: b, interface: eth1}\ntraffic:", `20:16: a already has an interface eth0; use another name`},
		{"long interface name", "{node: b, interface: eth0", "{node: b, interface: abcdefghijklmnop", `18:30: interface "abcdefghijklmnop" is not a name; use at most 15 letters, digits, - and _`},
		{"agent's interface", "- {name: eth0, id: 70", "- {name: eth9, id: 70", `12:18: the agent of b serves interface eth9, which no link has; name an interface of b`},
		{"error in the agent's configuration", "id: 70, role: []", "id: 70, role: [] , colour: red", `12:43: agent: unknown key "colour" in interfaces[0]; use the keys name, description, id, id-wide, role, boundary, attach, place, forwarding`},
		{"agent in braces", agentOfB, "    agent: {node: {id: 7},\n      strict: 3}\n", `9:15: agent: strict is the number 3; write true or false`},
		{"agent's missing key", "{id: 123, data", "{data", `14:11: agent: key "id" is missing in namespaces[0]; add it: a number from 0 to 65535`},
		{"agent without configuration", agentOfB, "    agent: yes\n", `8:12: agent must be a mapping: the agent's configuration`},
		{"mtu", "  - ends:", "  - mtu: 100\n    ends:", `16:10: mtu must be a whole number from 1280 to 65535`},
		{"kind", "kind: udp", "kind: sctp", `20:12: traffic of kind "sctp" is unknown; use ping, udp or tcp`},
		{"no kind", "kind: udp, ", "", `20:12: traffic has no kind; add kind: ping, udp or tcp`},
		{"no destination of traffic", ", to: b", "", `20:23: traffic needs from: NODE and to: NODE`},
		{"size", "size: 64", "size: -64", `20:39: size must be a whole number from 0 to 65000`},
		{"list as a size", "size: 64", "size: [64]", `20:39: size must be one value (quote an address inside braces or brackets)`},
		{"small datagram", "size: 64", "size: 8", `20:23: udp traffic numbers its datagrams; size must be at least 24`},
		{"traffic to nowhere", "to: b, size", "to: z, size", `20:23: no node is called z; add it under nodes`},
		{"no value", "name: small", "name:", `1:1: the topology: name has no value; give one or remove the key`},
		{"empty", smallTopology, "", `1:1: a topology is one YAML document with nodes and links`},
		{"list", smallTopology, "- name: small", `1:1: the topology must be a mapping of keys to values`},
		{"agent's configuration", smallTopology, "node: {id: 1}\ninterfaces: [{name: eth0}]\n", `1:1: this is an agent's configuration, not a topology; check it with 'waymark config check bad.yaml', run it with 'waymark agent run --config bad.yaml'`},
	} {
		t.Run(tt.name, tt.check)
	}
}

// mutation is one mistake in smallTopology.
type mutation struct {
	name     string
	old, new string
	want     string // all errors
}

func (m mutation) check(t *testing.T) {
	source := strings.Replace(smallTopology, m.old, m.new, 1)
	if source == smallTopology {
		t.Fatal("the mutation changes nothing")
	}
	_, err := Parse("bad.yaml", []byte(source))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Parse gave %v; want *Faults", err)
	}
	if want := "bad.yaml:" + strings.ReplaceAll(m.want, "\n", "\nbad.yaml:"); err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	for _, f := range faults.Faults {
		if text, cure, _ := strings.Cut(f.Error(), "; "); f.Text != text || f.Cure != cure {
			t.Errorf("the problem is %q and the cure %q", f.Text, f.Cure)
		}
	}
}

// One bad name is one error, however often it is used.
func TestParseBadNameIsToldOnce(t *testing.T) {
	source := strings.NewReplacer("name: b\n", "name: b.c\n", "node: b,", "node: b.c,", "to: b,", "to: b.c,").Replace(smallTopology)
	_, err := Parse("bad.yaml", []byte(source))
	if want := `bad.yaml:6:11: node name "b.c" is not a name; use at most 32 letters, digits, - and _`; err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// An agent's configuration in braces is the text between them.
func TestParseAgentInBraces(t *testing.T) {
	const inside = "{node: {id: 7}, # é\n      interfaces: [{name: eth0}]}"
	top, err := Parse("braces.yaml", []byte(strings.Replace(smallTopology, agentOfB, "    agent:  "+inside+"  # over\n", 1)))
	if err != nil {
		t.Fatal(err)
	}
	agent := top.Node("b").Agent
	if string(agent.Config) != inside+"\n" || *agent.Settings.Node.ID != 7 || len(agent.Settings.Interfaces) != 1 {
		t.Errorf("the configuration is\n%s\nread as %+v", agent.Config, agent.Settings)
	}
}

// Every mistake is named in one run.
func TestParseNamesAllFaults(t *testing.T) {
	source := strings.NewReplacer("via: 2001:db8:1::2", "via: nonsense", "id: 70", "id: 70000", "kind: udp", "kind: tcpp").
		Replace(smallTopology)
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
			t.Errorf("no error in line %d:\n%v", want, err)
		}
	}
}

func TestBuiltin(t *testing.T) {
	names := BuiltinNames()
	if !slices.Equal(names, []string{"ecmp", "line", "srv6"}) {
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

// The examples and the README describe the built-in line.
func TestOneAddressPlan(t *testing.T) {
	line, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]byte{}
	for _, name := range []string{"athos", "porthos", "aramis"} {
		if shown[name+" of examples"], err = os.ReadFile("../../examples/" + name + ".yaml"); err != nil {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	shown["athos of README"] = []byte(block)
	for name, text := range shown {
		c, err := config.Parse(name, text)
		if err != nil {
			t.Error(err)
			continue
		}
		node, _, _ := strings.Cut(name, " ")
		lab := line.Node(node).Agent.Settings
		if *c.Node.ID != *lab.Node.ID || !reflect.DeepEqual(c.Decapsulations, lab.Decapsulations) {
			t.Errorf(
				"%s has id %d and decapsulates %v, the lab's has %d and %v",
				name,
				*c.Node.ID,
				c.Decapsulations,
				*lab.Node.ID,
				lab.Decapsulations,
			)
		}
		for i, in := range c.Interfaces {
			if l := lab.Interfaces[i]; in.Name != l.Name || *in.ID != *l.ID || !slices.Equal(in.Role, l.Role) {
				t.Errorf("%s has the interface %s with id %d, the lab's %s with %d", name, in.Name, *in.ID, l.Name, *l.ID)
			}
		}
		for _, e := range c.Encapsulations {
			l := lab.Encapsulations[len(lab.Encapsulations)-1]
			if e.Interface != l.Interface || *e.Tunnel != *l.Tunnel || e.Match.Destination != l.Match.Destination {
				t.Errorf(
					"%s encapsulates %v by %+v at %s, the lab's %v by %+v at %s",
					name,
					e.Match.Destination,
					*e.Tunnel,
					e.Interface,
					l.Match.Destination,
					*l.Tunnel,
					l.Interface,
				)
			}
		}
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

// The topologies among the examples are valid, and named like their files.
func TestExampleTopologies(t *testing.T) {
	files, err := filepath.Glob("../../examples/lab/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %q, %v", files, err)
	}
	for _, file := range files {
		top, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if name := strings.TrimSuffix(filepath.Base(file), ".yaml"); top.Name != name || len(top.Traffic) == 0 {
			t.Errorf("%s calls itself %s and has the traffic %+v", name, top.Name, top.Traffic)
		}
	}
}

// The topology in the documentation is valid.
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
