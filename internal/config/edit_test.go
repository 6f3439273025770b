// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// inNamespace is a rule with one trace, of another namespace.
func inNamespace(e Encapsulation, id ioam.NamespaceID) Encapsulation {
	e.Options = []Option{{Trace: &TraceOption{Namespace: id, Type: 0x800000, Size: 4}}}
	return e
}

// edit is one edit and its expected result.
type edit struct {
	name    string
	edit    func(*Config) (*Config, error)
	has     string // in the copy's text, but not in the original's
	lacks   string // in the original's text, but not in the copy's
	wantErr string
}

var namespaceEdits = []edit{
	{name: "add a namespace", edit: func(c *Config) (*Config, error) { return c.AddNamespace(Namespace{ID: 5}) }, has: "id: 5\n"},
	{name: "add it twice", edit: func(c *Config) (*Config, error) { return c.AddNamespace(Namespace{ID: 123}) },
		wantErr: "namespace 123 exists already; remove it first with: waymark ioam namespace del 123, or change it with: waymark ioam namespace set 123, or take another id"},
	{name: "remove a namespace in use", edit: func(c *Config) (*Config, error) { return c.RemoveNamespace(123) }, lacks: "id: 123\n"},
	{name: "remove one whose key is needed", edit: func(c *Config) (*Config, error) {
		proving := *c
		proving.Encapsulations = slices.Clone(c.Encapsulations)
		proving.Encapsulations[0].Options = []Option{{Proof: &ProofOption{Namespace: 123}}}
		return proving.RemoveNamespace(123)
	}, wantErr: `namespace 123 is needed by encapsulation "a"; first remove that with: waymark route del name "a"`},
	{name: "remove a namespace that is not there", edit: func(c *Config) (*Config, error) { return c.RemoveNamespace(5) },
		wantErr: "there is no namespace 5; list them with: waymark ioam namespace show"},
	{name: "remove a namespace", edit: func(c *Config) (*Config, error) {
		c, _ = c.AddNamespace(Namespace{ID: 5})
		c, _ = c.RemoveEncapsulation("a")
		c, _ = c.RemoveEncapsulation("b")
		return c.RemoveNamespace(123)
	}, has: "id: 5\n", lacks: "id: 123\n"},
	{name: "set a schema", edit: func(c *Config) (*Config, error) { return c.SetSchema(123, &Schema{ID: 9, Data: "rack 9"}) }, has: `"rack 9"`, lacks: `data: abc`},
	{name: "set an export", edit: func(c *Config) (*Config, error) { return c.SetExport(123, model.ExportSample, 9) }, has: "export: sample\n    sample: 9\n", lacks: "export: none"},
	{name: "set what is done with options", edit: func(c *Config) (*Config, error) {
		return c.SetNamespace(123, NamespaceChange{Remove: new(true), TerminateActive: new(true), Loopback: new(false)})
	}, has: "remove: true\n", lacks: "terminate-active: false"},
	{name: "drop what has no proof", edit: func(c *Config) (*Config, error) {
		return c.SetNamespace(123, NamespaceChange{Proof: ProofChange{DropRejected: new(true)}})
	}, wantErr: "namespace 123 has no proof of transit whose packets could be dropped; name the file with this node's key, too: pot FILE drop-rejected on"},
	{name: "end a proof", edit: func(c *Config) (*Config, error) {
		c, err := c.SetNamespace(123, NamespaceChange{Proof: ProofChange{KeyFile: new("/etc/a.key"), DropRejected: new(true)}})
		if err != nil || c.Namespaces[0].Proof == nil ||
			*c.Namespaces[0].Proof != (Proof{KeyFile: "/etc/a.key", DropRejected: true, Difference: BlockLength(time.Second)}) {
			return c, errors.Join(err, fmt.Errorf("%+v", c.Namespaces[0].Proof))
		}
		next, err := c.SetNamespace(123, NamespaceChange{Proof: ProofChange{KeyFile: new("")}})
		if err == nil && next.Namespaces[0].Proof != nil {
			err = fmt.Errorf("still %+v", next.Namespaces[0].Proof)
		}
		return next, err
	}},
	{name: "another key", edit: func(c *Config) (*Config, error) {
		c, _ = c.SetNamespace(123, NamespaceChange{Proof: ProofChange{KeyFile: new("/etc/a.key"), DropRejected: new(true)}})
		next, err := c.SetNamespace(123, NamespaceChange{Proof: ProofChange{KeyFile: new("/etc/b.key")}})
		if c.Namespaces[0].Proof.KeyFile != "/etc/a.key" {
			err = errors.Join(err, errors.New("the earlier configuration has changed"))
		}
		return next, err
	}, has: "key-file: \"/etc/b.key\"\n      drop-rejected: true\n"},
	{name: "set it for no namespace", edit: func(c *Config) (*Config, error) { return c.SetNamespace(5, NamespaceChange{}) },
		wantErr: `there is no namespace 5; add it with: waymark ioam namespace add 5`},
	{name: "export of no namespace", edit: func(c *Config) (*Config, error) { return c.SetExport(5, model.ExportEvery, 0) },
		wantErr: `there is no namespace 5; add it with: waymark ioam namespace add 5`},
	{name: "sample of nothing", edit: func(c *Config) (*Config, error) { return c.SetExport(123, model.ExportSample, 0) },
		wantErr: `namespace 123: export sample needs the number n of packets; use n in 1…1000000: a postcard for every n-th packet`},
	{name: "take a schema away", edit: func(c *Config) (*Config, error) { return c.SetSchema(123, nil) }, lacks: "schema:"},
	{name: "schema of no namespace", edit: func(c *Config) (*Config, error) { return c.SetSchema(5, nil) },
		wantErr: "there is no namespace 5; add it with: waymark ioam namespace add 5"},
	{name: "schema that is too long", edit: func(c *Config) (*Config, error) {
		return c.SetSchema(123, &Schema{ID: 9, Data: strings.Repeat("x", 300)})
	}, wantErr: "namespace 123: 300 bytes are too many; use at most 252 bytes"},
}

func TestNamespaceEdits(t *testing.T) {
	for _, tt := range namespaceEdits {
		t.Run(tt.name, tt.check)
	}
}

func TestEncapsulationEdits(t *testing.T) {
	// A rule after the existing ones.
	extra := mustParse(t, twoInterfaces).Encapsulations[0]
	extra.Name = "c"
	for _, tt := range encapsulationEdits(extra) {
		t.Run(tt.name, tt.check)
	}
}

func encapsulationEdits(extra Encapsulation) []edit {
	return []edit{
		{name: "add an encapsulation", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(extra) }, has: "name: c\n"},
		{name: "add one with a name in use", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(c.Encapsulations[0]) },
			wantErr: `encapsulation "a" exists already; overwrite it with: waymark route replace, or give the new one another name`},
		{name: "add an empty one", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(Encapsulation{Interface: "eth0"}) },
			wantErr: "encapsulation \"\": no name; give it a name: it appears in status and metrics\nencapsulation \"\": 0 options; give 1…9"},
		{name: "add one without its namespace", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(inNamespace(extra, 9)) }, has: "namespace: 9"},
		{name: "add one on an interface that is not served", edit: func(c *Config) (*Config, error) {
			e := extra
			e.Interface = "eth7"
			return c.AddEncapsulation(e)
		}, wantErr: `encapsulation "c": "eth7" is not an interface that this node serves; give it the role egress under interfaces in the configuration file, then: waymark agent reload`},
		{name: "add one without a tunnel", edit: func(c *Config) (*Config, error) {
			e := extra
			e.Mode, e.Tunnel = model.ModeEncap, nil
			return c.AddEncapsulation(e)
		}, wantErr: `encapsulation "c": has mode encap and no tunnel; add tunnel: {destination: ADDRESS}, or set mode: inline`},
		{name: "add too many that overlap", edit: func(c *Config) (*Config, error) {
			var err error
			for n := 0; err == nil; n++ {
				e := extra
				e.Name = fmt.Sprint("more", n)
				c, err = c.AddEncapsulation(e)
			}
			first, _, _ := strings.Cut(err.Error(), "\n")
			_, about, _ := strings.Cut(first, ": ")
			return nil, errors.New(about)
		}, wantErr: `17 encapsulations match one destination; remove one of them with: waymark route del name NAME; 16 may overlap on one interface`},
		{name: "replace one", edit: func(c *Config) (*Config, error) {
			e := c.Encapsulations[0]
			e.Frequency = model.Frequency{K: 7, N: 77}
			next, err := c.ReplaceEncapsulation(e)
			if err == nil && (next.Encapsulations[0].Name != "a" || len(next.Encapsulations) != 2) {
				err = errors.New("it lost its place")
			}
			return next, err
		}, has: "frequency: 7/77\n"},
		{name: "replace one that is not there", edit: func(c *Config) (*Config, error) { return c.ReplaceEncapsulation(extra) }, has: "name: c\n"},
		{name: "replace one by one that is wrong", edit: func(c *Config) (*Config, error) {
			e := c.Encapsulations[1]
			e.Options = nil
			return c.ReplaceEncapsulation(e)
		}, wantErr: `encapsulation "b": 0 options; give 1…9`},
		{name: "remove an encapsulation", edit: func(c *Config) (*Config, error) { return c.RemoveEncapsulation("a") }, lacks: "name: a\n"},
		{name: "remove one that is not there", edit: func(c *Config) (*Config, error) { return c.RemoveEncapsulation("z") },
			wantErr: `there is no encapsulation "z"; list them with: waymark route show`},
	}
}

func (tt edit) check(t *testing.T) {
	base := mustParse(t, twoInterfaces)
	before := string(base.Marshal())
	next, err := tt.edit(base)
	if after := string(base.Marshal()); after != before {
		t.Errorf("the original changed:\n%s", after)
	}
	if tt.wantErr != "" {
		if err == nil || err.Error() != tt.wantErr || next != nil {
			t.Errorf("got %v\nwant %s", err, tt.wantErr)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	text := string(next.Marshal())
	if !strings.Contains(text, tt.has) || tt.has != "" && strings.Contains(before, tt.has) {
		t.Errorf("no new %q in:\n%s", tt.has, text)
	}
	if tt.lacks != "" && (strings.Contains(text, tt.lacks) || !strings.Contains(before, tt.lacks)) {
		t.Errorf("still %q in:\n%s", tt.lacks, text)
	}
	mustParse(t, text)
}

func TestEditsOfInterfacesAndDecapsulations(t *testing.T) {
	both, none, egress, strip := model.RoleIngress|model.RoleEgress, model.Role(0), model.RoleEgress, Boundary{Default: model.BoundaryStrip}
	filtering := Boundary{
		Namespaces: []model.NamespacePolicy{{Namespace: 7, Boundary: model.BoundaryStrip}, {Namespace: 123, Boundary: model.BoundaryIgnore}},
	}
	end := netip.MustParseAddr("2001:db8:ff::3")
	ending := func(c *Config) *Config {
		next, err := c.AddDecapsulation(Decapsulation{TunnelDestination: end})
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	for _, tt := range []edit{
		{name: "roles", edit: func(c *Config) (*Config, error) { return c.SetInterface("eth1", &both, nil) }, has: "    role: [ingress, egress]\n    boundary: drop\n"},
		{name: "boundary", edit: func(c *Config) (*Config, error) { return c.SetInterface("eth0", nil, &strip) }, has: "role: [ingress, egress]\n    boundary: strip\n"},
		{name: "both", edit: func(c *Config) (*Config, error) { return c.SetInterface("eth0", &egress, &strip) }, has: "role: [egress]\n    boundary: strip\n"},
		{name: "policies of namespaces", edit: func(c *Config) (*Config, error) { return c.SetInterface("eth0", &egress, &filtering) },
			has: "role: [egress]\n    boundary:\n      default: drop\n      namespaces:\n        7: strip\n        123: ignore\n"},
		{name: "an interface that is not served", edit: func(c *Config) (*Config, error) { return c.SetInterface("eth7", nil, &strip) },
			wantErr: `"eth7" is not an interface that this node serves; add it to interfaces in the configuration file, then: waymark agent reload`},
		{name: "a role that is in use", edit: func(c *Config) (*Config, error) { return c.SetInterface("eth1", &none, nil) },
			wantErr: `encapsulation "b": "eth1" lacks the egress role, so no IOAM may leave there; give it that role with: waymark interface set IF role ROLES; or remove the encapsulation with: waymark route del name NAME`},
		{name: "add a decapsulation", edit: func(c *Config) (*Config, error) { return ending(c), nil }, has: "tunnel-destination: 2001:db8:ff::3\n"},
		{name: "add one twice", edit: func(c *Config) (*Config, error) {
			return ending(c).AddDecapsulation(Decapsulation{TunnelDestination: end})
		}, wantErr: "decapsulation 2001:db8:ff::3 exists already; to change it, remove it first with: waymark decapsulation del 2001:db8:ff::3"},
		{name: "add one that no tunnel can have", edit: func(c *Config) (*Config, error) {
			return c.AddDecapsulation(Decapsulation{TunnelDestination: netip.MustParseAddr("ff02::1")})
		}, wantErr: "decapsulation ff02::1: ff02::1 is a multicast address; use a unicast IPv6 address, such as 2001:db8:3::1"},
		{name: "remove a decapsulation", edit: func(c *Config) (*Config, error) {
			next, err := ending(c).AddDecapsulation(Decapsulation{TunnelDestination: netip.MustParseAddr("2001:db8:ff::4")})
			if err != nil {
				return nil, err
			}
			return next.RemoveDecapsulation(end)
		}, has: "decapsulations:\n  - tunnel-destination: 2001:db8:ff::4\nexport"},
		{name: "remove one that is not there", edit: func(c *Config) (*Config, error) { return c.RemoveDecapsulation(end) },
			wantErr: "there is no decapsulation 2001:db8:ff::3; list them with: waymark decapsulation show"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// Equal agrees with the text of configurations, for each value that a configuration may have.
func TestEqual(t *testing.T) {
	const node = "node: {id: 7}\n"
	list := []string{
		node, "node: {id: 8}\n", "node: {}\n",
		node + "interfaces: [{name: eth0}]\n", node + "interfaces: [{name: eth0, role: [ingress, egress]}]\n", node + "interfaces: [{name: eth0}, {name: eth1}]\n",
		node + "decapsulations: [{tunnel-destination: 2001:db8::1}]\n", node + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: [\"2001:db8::/32\"]}]\n",
		node + "decapsulations: [{tunnel-destination: 2001:db8::1, bare: true}]\n", node + "decapsulations: [{tunnel-destination: 2001:db8::1, bare: false}]\n",
		node + "namespaces: [{id: 1, schema: {id: 2, data: \"0102\"}}]\n", node + "namespaces: [{id: 1, schema: {id: 2, data: \"0103\"}}]\n",
	}
	for i := range list {
		for j := range list {
			a, b := mustParse(t, list[i]), mustParse(t, list[j])
			if want := string(a.Marshal()) == string(b.Marshal()); want != (i == j) || a.Equal(b) != want {
				t.Errorf("%q and %q: equal %v, want %v", list[i], list[j], a.Equal(b), want)
			}
		}
	}
}

// Errors in a flow that is added name the flow and its keys, and other flows by their names.
func TestRefusedFlows(t *testing.T) {
	for text, want := range map[string]string{
		`"direction":"out","source":"2001:db8::9","segments":["ff02::1"]`:                                                              `flow "new": segments: ff02::1 is no SID`,
		`"direction":"out","source":"2001:db8::9","segments":["fc00::1"],"session":1206`:                                               `flow "new": session: 1206 is also the session of flow "red"; give`,
		`"direction":"out","source":"2001:db8::9","segments":["fc00::1"],"points":["::2"],"probes":"in-band","points_after":[1]`:       `flow "new": points-after: 1 numbers for 1 points`,
		`"direction":"out","source":"2001:db8::9","segments":["fc00::1"],"points":["::2"],"max_delay":"1s"`:                            `flow "new": max-delay: packets with a delay of 1s make blocks uncertain`,
		`"direction":"in","source":"2001:db8::9","segments":["fc00::1"],"max_loss":"1%"`:                                               `flow "new": max-loss: loss and delay of the flow are not computed here`,
		`"direction":"out","source":"2001:db8::9","segments":["fc00::1"],"points":["one=::2"],"return_segments":["fc00::9"],"point":1`: `flow "new": return-segments: only in-band packets ask for a way back`,
	} {
		var f Flow
		if err := f.UnmarshalJSON([]byte(`{"name":"new",` + text + "}")); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := mustParse(t, measuring).AddFlow(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Each key of a namespace that is true or false is a switch, and changes that key alone.
func TestNamespaceSwitches(t *testing.T) {
	var keys []string
	for _, f := range yamlfile.Fields(reflect.TypeFor[Namespace]()) {
		if reflect.TypeFor[Namespace]().FieldByIndex(f.Index).Type.Kind() == reflect.Bool {
			keys = append(keys, f.Key)
		}
	}
	var switches []string
	for _, s := range NamespaceSwitches {
		switches = append(switches, s.Key)
		var change NamespaceChange
		s.Set(&change, true)
		ns := Namespace{ID: 7}
		if err := change.Apply(&ns); err != nil || !s.IsOn(&ns) {
			t.Errorf("%s on: %+v, %v", s.Key, ns, err)
		}
		asked, err := json.Marshal(change)
		if want := fmt.Sprintf(`{"%s":true}`, strings.ReplaceAll(s.Key, "-", "_")); err != nil || string(asked) != want {
			t.Errorf("the change to %s is %s, %v, want %s", s.Key, asked, err, want)
		}
		set, err := json.Marshal(ns)
		if want := fmt.Sprintf(`"%s":true`, strings.ReplaceAll(s.Key, "-", "_")); err != nil || strings.Count(string(set), "true") != 1 ||
			!strings.Contains(string(set), want) {
			t.Errorf("the namespace with %s is %s, %v", s.Key, set, err)
		}
		s.Set(&change, false)
		if err := change.Apply(&ns); err != nil || s.IsOn(&ns) {
			t.Errorf("%s off: %+v, %v", s.Key, ns, err)
		}
	}
	slices.Sort(keys)
	slices.Sort(switches)
	if !slices.Equal(keys, switches) {
		t.Errorf("keys that are true or false are %v, switches %v", keys, switches)
	}
}
