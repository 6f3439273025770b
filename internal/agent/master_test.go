// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"reflect"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// An interface that joins a bridge, and others that follow or leave, change
// what is known of arrivals; changes among others do not.
func TestMastersChange(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.start()
	running := func() []model.Master { return h.datapath.running().Node.Masters }
	enslave := func(masters map[model.IfIndex]model.IfIndex) {
		h.system.setLinks(func(l map[string]config.Link) {
			eth0 := l["eth0"]
			eth0.IsMember = masters[eth0.Index] != 0
			l["eth0"], h.system.masters = eth0, maps.Clone(masters)
		})
	}
	both := model.RoleIngress | model.RoleEgress
	if running() != nil {
		t.Fatalf("masters %+v at start", running())
	}
	for _, step := range []struct {
		name    string
		masters map[model.IfIndex]model.IfIndex
		want    []model.Master
	}{
		{"joined", map[model.IfIndex]model.IfIndex{2: 20}, []model.Master{{Index: 20, ID: 201, IDWide: ioam.InterfaceIDWideUnavailable, Roles: both}}},
		{"not alone", map[model.IfIndex]model.IfIndex{2: 20, 8: 20}, []model.Master{{Index: 20, ID: ioam.InterfaceIDUnavailable, IDWide: ioam.InterfaceIDWideUnavailable, Roles: both}}},
		{"left", map[model.IfIndex]model.IfIndex{8: 20}, nil},
	} {
		enslave(step.masters)
		eventually(t, step.name, func() bool { return reflect.DeepEqual(running(), step.want) })
	}
	before := h.datapath.applications()
	enslave(map[model.IfIndex]model.IfIndex{8: 20, 9: 20})
	h.system.setLinks(func(l map[string]config.Link) { l["eth1"] = config.Link{Index: 3, MTU: 9000} })
	eventually(t, "a look was taken", func() bool { return h.status().Interfaces[1].MTU == 9000 })
	if n := h.datapath.applications(); n != before {
		t.Errorf("%d generations for bridges of others", n-before)
	}
}
