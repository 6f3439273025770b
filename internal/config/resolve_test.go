// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
)

// fakeHost has the interfaces in links; all its sysctls are 7, except for "broken".
type fakeHost struct {
	links   map[string]Link
	devices []Device
	broken  string
	sources map[netip.Addr]netip.Addr
	names   map[string][]netip.Addr
	peers   []model.Collector
}

func (h fakeHost) SourceTo(to netip.Addr) (netip.Addr, error) {
	if from, ok := h.sources[to]; ok {
		return from, nil
	}
	return netip.Addr{}, fmt.Errorf("no route to %s", to)
}

func (h fakeHost) Peers() []model.Collector           { return h.peers }
func (h fakeHost) Addresses(name string) []netip.Addr { return h.names[name] }

func (h fakeHost) Link(name string) (Link, bool, error) {
	if h.broken == "link" {
		return Link{}, false, errors.New("netlink is closed")
	}
	l, ok := h.links[name]
	return l, ok, nil
}

func (h fakeHost) Devices() ([]Device, error) {
	return h.devices, h.sysctl("devices")
}

func (h fakeHost) sysctl(name string) error {
	if h.broken == name {
		return errors.New("no such file")
	}
	return nil
}
func (h fakeHost) ProofKey(file string) (*pot.Key, error) { return pot.Read(file) }

func (h fakeHost) StackOptions() (int, error)           { return 9, h.sysctl("options") }
func (h fakeHost) NodeID() (ioam.NodeID, error)         { return 7, h.sysctl("node") }
func (h fakeHost) NodeIDWide() (ioam.NodeIDWide, error) { return 77, h.sysctl("node-wide") }
func (h fakeHost) InterfaceID(string) (ioam.InterfaceID, error) {
	return 777, h.sysctl("interface")
}
func (h fakeHost) InterfaceIDWide(string) (ioam.InterfaceIDWide, error) {
	return 7777, h.sysctl("interface-wide")
}

const twoInterfaces = `interfaces:
  - {name: eth0, role: [ingress, egress], attach: tcx, boundary: ignore}
  - {name: eth1, id: 8, id-wide: 88, role: [egress], forwarding: fast}
namespaces: [{id: 123, schema: {id: 1, data: abc}}]
encapsulations:
  - {name: a, interface: eth0, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: b, interface: eth1, tunnel: {source: 2001:db8::1, destination: 2001:db8::2}, match: {flow-label: 5}, options: [{trace: {namespace: 123, type: 0x800000, size: 8}}]}
`

func TestResolve(t *testing.T) {
	c := mustParse(t, twoInterfaces)
	eth0, eth1 := Link{Index: 4, MTU: 1500, Up: true}, Link{Index: 9, MTU: 9000}
	r, err := c.Resolve(fakeHost{links: map[string]Link{"eth0": eth0, "eth1": eth1}})
	if err != nil {
		t.Fatal(err)
	}
	label := uint32(5)
	tunnel := c.Encapsulations[1].Tunnel
	want := Resolved{
		Attach:       map[model.IfIndex]string{4: "tcx", 9: "auto"},
		Places:       map[model.IfIndex]model.Place{},
		Fast:         map[model.IfIndex]bool{9: true},
		StackOptions: 9,
		Derived:      map[netip.Addr]netip.Addr{},
		Outside:      map[model.IfIndex]bool{},
		Node: model.NodeConfig{
			ID: 7, IDWide: 77, FlowSeed: 0x5741594d41524b36, FlowEntries: 4096, ExportLimit: 100, LoopbackLimit: 100, LoopbackRate: 100,
			ExportRate: 10000,
			Interfaces: []model.Interface{
				{Index: 4, Name: "eth0", ID: 777, IDWide: 7777, Roles: model.RoleIngress | model.RoleEgress, Boundary: model.BoundaryIgnore, MTU: 1500},
				{Index: 9, Name: "eth1", ID: 8, IDWide: 88, Roles: model.RoleEgress, MTU: 9000},
			},
			Namespaces: []model.Namespace{{
				ID: 123, Data: ioam.DataUnavailable, DataWide: ioam.DataWideUnavailable,
				Schema: &model.Schema{ID: 1, Data: []byte("abc")},
			}},
			Encapsulations: []model.Encapsulation{
				{Name: "a", Interface: 4, Flows: 1, Frequency: model.Frequency{K: 1, N: 1}, Mode: model.ModeInline,
					Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})},
				{Name: "b", Interface: 9, Flows: 1, Frequency: model.Frequency{K: 1, N: 1}, Mode: model.ModeAuto, Match: model.Match{FlowLabel: &label},
					TunnelSource: tunnel.Source, TunnelDestination: tunnel.Destination,
					Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 8})},
			},
		},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

func TestResolveMissingInterface(t *testing.T) {
	host := fakeHost{links: map[string]Link{"eth1": {Index: 9, MTU: 9000}}}
	r, err := mustParse(t, twoInterfaces).Resolve(host)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Missing) != 1 || r.Missing[0] != "eth0" || len(r.Node.Interfaces) != 1 || len(r.Node.Encapsulations) != 1 ||
		r.Node.Encapsulations[0].Name != "b" {
		t.Errorf("%+v", r)
	}

	_, err = mustParse(t, twoInterfaces+"strict: true\n").Resolve(host)
	want := `test.yaml:2:12: there is no interface "eth0" here; create it, correct its name, or set strict: false to serve it when it appears`
	if err == nil || err.Error() != want {
		t.Errorf("strict: %v\nwant %s", err, want)
	}
}

// Interfaces that a strict file names and the host lacks are reported with the file's
// own errors, in the file's order; unreadable values are not looked up.
func TestMissingInterfacesAmongOtherFaults(t *testing.T) {
	const text = `strict: true
interfaces:
  - {name: gone0}
  - {name: eth1, id: 70000}
  - {nome: eth2}
  - {name: "a b"}
  - {name: gone1}
namespaces: [{id: 70000}]
`
	host := fakeHost{links: map[string]Link{"eth1": {Index: 9, MTU: 9000}}}
	_, err := ParseFor(host, "test.yaml", []byte(text))
	const cure = "create it, correct its name, or set strict: false to serve it when it appears"
	want := `test.yaml:3:12: there is no interface "gone0" here; ` + cure + `
test.yaml:4:22: interfaces[1].id: 70000 is too large; write a number from 0 to 65535
test.yaml:5:6: unknown key "nome" in interfaces[2]; did you mean "name"?
test.yaml:6:12: interfaces[3].name: "a b" cannot be the name of an interface; write 1 to 15 characters without spaces, / and :
test.yaml:7:12: there is no interface "gone1" here; ` + cure + `
test.yaml:8:19: namespaces[0].id: 70000 is too large; write a number from 0 to 65535`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	for _, strict := range []string{"strict: false", "strict: 5"} {
		_, err = ParseFor(host, "test.yaml", []byte(strings.Replace(text, "strict: true", strict, 1)))
		if err == nil || strings.Contains(err.Error(), "there is no interface") {
			t.Errorf("%s: %v", strict, err)
		}
	}
	host.broken = "link"
	if _, err := ParseFor(host, "test.yaml", []byte(twoInterfaces+"strict: true\n")); err != nil {
		t.Errorf("a host that cannot tell: %v", err)
	}
}

// A kernel's id may be the one that the file gives another interface: the error's place
// counts interfaces as the file does.
func TestResolveFindsFaultsOfTheHost(t *testing.T) {
	c := mustParse(t, "interfaces:\n  - {name: gone}\n  - {name: eth0, id: 777}\n  - {name: eth1}\n")
	_, err := c.Resolve(fakeHost{links: map[string]Link{"eth0": {Index: 1}, "eth1": {Index: 2}}})
	if err == nil || !strings.HasPrefix(err.Error(), "test.yaml:4:5: interfaces[2].id: 777 is also the id of interfaces[1]") {
		t.Errorf("%v", err)
	}
}

// A valid file that does not suit the host gives all errors at once: what the host
// lacks, what collides with its ids, and its files.
func TestFaultsOfTheHostTogether(t *testing.T) {
	const text = `strict: true
interfaces:
  - {name: gone0}
  - {name: eth0, id: 777, role: [egress]}
  - {name: eth1}
namespaces: [{id: 123}]
encapsulations:
  - {name: a, interface: eth0, tunnel: {destination: "2001:db8::9"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
export:
  - {kind: ipfix, address: "tls://collector.example.net", tls: {ca: /nonexistent/ca.pem}}
`
	host := fakeHost{links: map[string]Link{"eth0": {Index: 1}, "eth1": {Index: 2}}}
	_, err := ParseFor(host, "test.yaml", []byte(text))
	var got []string
	for line := range strings.Lines(fmt.Sprint(err)) {
		place, _, _ := strings.Cut(line, ";")
		got = append(got, place)
	}
	want := []string{
		`test.yaml:3:12: there is no interface "gone0" here`,
		`test.yaml:5:5: interfaces[2].id: 777 is also the id of interfaces[1]`,
		`test.yaml:5:5: interfaces[2].id-wide: 7777 is also the wide id of interfaces[1]`,
		`test.yaml:8:40: encapsulations[0].tunnel has no source: no route to 2001:db8::9`,
		`test.yaml:10:69: export[0].tls.ca: open /nonexistent/ca.pem: no such file or directory`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestResolveHostErrors(t *testing.T) {
	c := mustParse(t, "interfaces: [{name: eth0}]")
	for broken, want := range map[string]string{
		"link":           "look up interface eth0: netlink is closed",
		"node":           "read the kernel's node id: no such file; set node.id",
		"node-wide":      "read the kernel's wide node id: no such file; set node.id-wide",
		"interface":      "read the kernel's id of interface eth0: no such file; set its id",
		"interface-wide": "read the kernel's wide id of interface eth0: no such file; set its id-wide",
	} {
		_, err := c.Resolve(fakeHost{links: map[string]Link{"eth0": {Index: 1}}, broken: broken})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", broken, err, want)
		}
	}
}

// In mode observe, the node has interfaces and nothing by which it could change a packet; the
// file is checked as usual.
func TestResolveObserves(t *testing.T) {
	const text = `node: {mode: %s, id: 1}
interfaces: [{name: eth0, id: 1, id-wide: 1, role: [ingress], forwarding: fast}, {name: eth1, id: 2, id-wide: 2, role: [egress], boundary: {default: drop, namespaces: {7: strip}}, attach: clsact}]
namespaces: [{id: 7, remove: true, export: every}]
encapsulations: [{name: a, interface: eth1, match: {destination: "2001:db8::/32"}, mode: inline, options: [{trace: {namespace: 7, type: 0x800000, size: 12}}]}]
decapsulations: [{tunnel-destination: "2001:db8::1"}]
`
	h := fakeHost{links: map[string]Link{"eth0": {Index: 1, Up: true}, "eth1": {Index: 2, Up: true}}}
	r, err := mustParse(t, fmt.Sprintf(text, "observe")).Resolve(h)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Node, r.Node.Observing()) || len(r.Node.Interfaces) != 2 || len(r.Fast) > 0 ||
		r.Attach[1] != "tc" || r.Attach[2] != "clsact" {
		t.Errorf("%+v", r)
	}
	full, err := mustParse(t, fmt.Sprintf(text, "full")).Resolve(h)
	if err != nil || reflect.DeepEqual(full.Node, full.Node.Observing()) || !full.Fast[1] {
		t.Errorf("%+v, %v", full, err)
	}
	if _, err := Parse("F", []byte(fmt.Sprintf(text, "observe")+"metrics: {listen: wrong}\n")); err == nil {
		t.Error("an error of the file is not found")
	}
}
