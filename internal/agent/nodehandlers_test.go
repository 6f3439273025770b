// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Roles, boundaries and decapsulations are changed at runtime: in force at once,
// kept over a restart, ended by a reload; what is refused changes nothing.
func TestInterfacesAndDecapsulationsChange(t *testing.T) {
	ctx, end := context.Background(), mustAddr("2001:db8:ff::3")
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	before := h.Datapath.Running().Node
	strip := config.Boundary{
		Default:    model.BoundaryStrip,
		Namespaces: []model.NamespacePolicy{{Namespace: 123, Boundary: model.BoundaryIgnore}},
	}
	change := api.InterfaceChange{Role: &[]model.Role{}, Boundary: &strip}
	if err := failure(h.Client.SetInterface(ctx, "eth0", change)); err != nil {
		t.Fatal(err)
	}
	if err := failure(h.Client.AddDecapsulation(ctx, config.Decapsulation{TunnelDestination: end})); err != nil {
		t.Fatal(err)
	}
	changed := func(when string) {
		t.Helper()
		node := h.Datapath.Running().Node
		if in := node.Interfaces[0]; in.Roles != 0 || in.Boundary != model.BoundaryStrip || !slices.Equal(in.Policies, strip.Namespaces) ||
			node.Interfaces[1].Roles != before.Interfaces[1].Roles {
			t.Errorf("%s: interfaces %+v", when, node.Interfaces)
		}
		if d := node.Decapsulations; len(d) != len(before.Decapsulations)+1 || d[len(d)-1].TunnelDestination != end {
			t.Errorf("%s: decapsulations %+v", when, d)
		}
		if s := h.Status(); !s.Modified || s.Interfaces[0].Boundary != "strip" || s.Interfaces[0].Namespaces["123"] != "ignore" ||
			len(s.Decapsulations) != len(before.Decapsulations)+1 {
			t.Errorf("%s: status %+v", when, s)
		}
	}
	changed("at once")
	list, err := h.Client.Interfaces(ctx)
	ends, err2 := h.Client.Decapsulations(ctx)
	if err != nil || err2 != nil || len(list) != 2 || !reflect.DeepEqual(list[0].Boundary, strip) ||
		len(ends) != len(before.Decapsulations)+1 {
		t.Errorf("lists %+v, %+v (%v, %v)", list, ends, err, err2)
	}

	applied := h.Datapath.Applications()
	for want, err := range map[string]error{
		`"eth9" is not an interface`:                      failure(h.Client.SetInterface(ctx, "eth9", change)),
		"decapsulation 2001:db8:ff::3 exists already":     failure(h.Client.AddDecapsulation(ctx, config.Decapsulation{TunnelDestination: end})),
		"there is no decapsulation 2001:db8:ff::9":        failure(h.Client.RemoveDecapsulation(ctx, mustAddr("2001:db8:ff::9"))),
		"decapsulation ::: :: is the unspecified address": failure(h.Client.AddDecapsulation(ctx, config.Decapsulation{TunnelDestination: netip.IPv6Unspecified()})),
		"\"invalid IP\" is not an address":                failure(h.Client.AddDecapsulation(ctx, config.Decapsulation{})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if h.Datapath.Applications() != applied {
		t.Error("what was refused was applied")
	}

	h.Crash()
	h.Start()
	changed("after a restart")
	if err := failure(h.Client.RemoveDecapsulation(ctx, end)); err != nil {
		t.Fatal(err)
	}
	if d := h.Datapath.Running().Node.Decapsulations; len(d) != len(before.Decapsulations) {
		t.Errorf("decapsulations after the removal: %+v", d)
	}
	if _, err := h.Client.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if in := h.Datapath.Running().Node.Interfaces[0]; in.Roles != before.Interfaces[0].Roles || in.Boundary != before.Interfaces[0].Boundary {
		t.Errorf("after a reload: %+v", in)
	}
}

// An empty list of sources does not mean any source.
func TestDecapsulationWithoutSources(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for _, sources := range []string{"[]", "null"} {
		status, body := h.Request("POST", "/v1/decapsulations", `{"tunnel_destination":"2001:db8:ff::3","sources":`+sources+`}`)
		if status != 422 || !strings.Contains(body, "no source is listed") {
			t.Errorf("sources %s: %d %s", sources, status, body)
		}
	}
	if h.Datapath.Applications() != 1 {
		t.Error("what was refused was applied")
	}
}

// A change that changes nothing does not make the running configuration differ from the
// file's.
func TestChangesOfNothing(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	for _, body := range []string{"{}", `{"role":null,"boundary":null}`} {
		if status, answer := h.Request("PATCH", "/v1/interfaces/eth0", body); status != 400 || !strings.Contains(answer, "nothing to set") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	c := h.agent.state.Load().Config
	for name, change := range map[string]func() error{
		"boundary": func() error {
			return failure(h.Client.SetInterface(ctx, "eth0", api.InterfaceChange{Boundary: &c.Interfaces[0].Boundary}))
		},
		"role in another order": func() error {
			return failure(h.Client.SetInterface(ctx, "eth0", api.InterfaceChange{Role: &[]model.Role{model.RoleEgress, model.RoleIngress}}))
		},
		"encapsulation": func() error { return failure(h.Client.ReplaceEncapsulation(ctx, c.Encapsulations[1], false)) },
		"export":        func() error { _, err := h.Client.SetExport(ctx, 123, api.NamespaceExport{}); return err },
		"namespace":     func() error { return h.Client.SetNamespace(ctx, 123, config.NamespaceChange{Remove: new(false)}) },
	} {
		if err := change(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := h.Datapath.Applications(); n != 1 || h.Status().Modified {
			t.Errorf("%s: applied %d times, modified %v", name, n, h.Status().Modified)
		}
	}
	if _, err := os.Stat(h.Instance.RunningFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state is kept: %v", err)
	}
	id := ioam.SchemaID(9)
	if err := h.Client.AddSchema(ctx, api.Schema{ID: id, Data: "new"}); err != nil || !h.Status().Modified {
		t.Errorf("a schema that nothing uses yet: modified %v, %v", h.Status().Modified, err)
	}
}

// Settings of a namespace change one by one; those that are not named stay.
func TestSetNamespace(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if status, answer := h.Request("PATCH", "/v1/namespaces/123", "{}"); status != 400 || !strings.Contains(answer, "nothing to set") {
		t.Errorf("%d %s", status, answer)
	}
	for _, change := range []config.NamespaceChange{{Remove: new(true), Loopback: new(true)}, {EdgeToEdge: new(true), Incremental: new(true)},
		{TerminateActive: new(true), Loopback: new(false)}} {
		if err := h.Client.SetNamespace(ctx, 123, change); err != nil {
			t.Fatal(err)
		}
	}
	list, err := h.Client.Namespaces(ctx)
	if err != nil || !list[0].Remove || !list[0].EdgeToEdge || !list[0].Incremental || list[0].Loopback || !list[0].TerminateActive ||
		h.Datapath.Applications() != 4 {
		t.Errorf("%+v after %d applications, %v", list, h.Datapath.Applications(), err)
	}
	if err := h.Client.SetNamespace(ctx, 9, config.NamespaceChange{Remove: new(true)}); err == nil ||
		!strings.Contains(err.Error(), "waymark ioam namespace add 9") {
		t.Errorf("%v", err)
	}
}

// A list of roles in the file keeps its order when nothing changes.
func TestRolesKeepTheirOrder(t *testing.T) {
	h := newHarness(t, strings.Replace(agenttest.BaseConfig, "role: [ingress, egress]", "role: [egress, ingress]", 1))
	h.Start()
	both := []model.Role{model.RoleIngress, model.RoleEgress}
	if err := failure(h.Client.SetInterface(context.Background(), "eth0", api.InterfaceChange{Role: &both})); err != nil ||
		h.Status().Modified {
		t.Errorf("modified %v, %v", h.Status().Modified, err)
	}
}

// A reload that removes the ends of tunnels names them, also in the log.
func TestReloadWarnsOfRemovedTunnelEnds(t *testing.T) {
	const base = "node: {id: 2}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, role: [ingress]}]\nnamespaces: [{id: 7}]\n"
	const one, other = `{tunnel-destination: "2001:db8:ff::3"}`, `{tunnel-destination: "2001:db8:ff::4", sources: ["2001:db8:ff::7"]}`
	h := newHarness(t, base+"decapsulations: ["+one+", "+other+"]\n")
	h.Start()
	for _, tt := range []struct {
		ends string
		want []string
	}{
		{one + ", " + other, nil},
		{`{tunnel-destination: "2001:db8:ff::4"}`, []string{"2001:db8:ff::3"}},
		{"", []string{"2001:db8:ff::4"}},
		{"", nil},
	} {
		h.Write(base + "decapsulations: [" + tt.ends + "]\n")
		done, err := h.Client.Reload(t.Context())
		if err != nil || done.Warnings == nil {
			t.Fatalf("%v: %+v", err, done)
		}
		var got []string
		for _, w := range done.Warnings {
			if w.Code == health.TunnelEndRemoved {
				got = append(got, w.Text)
			}
		}
		if len(got) != len(tt.want) || len(got) == 1 && !strings.Contains(got[0], tt.want[0]) {
			t.Errorf("[%s]: warns %q, want of %q", tt.ends, got, tt.want)
		}
	}
	if n := strings.Count(h.Log.String(), "warning=tunnel_end_removed"); n != 2 {
		t.Errorf("%d lines in the log, want 2:\n%s", n, h.Log)
	}
}
