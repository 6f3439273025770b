// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"reflect"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// An interface that joins a bridge or gets a VLAN device, and others that follow or
// leave, change what is known of arrivals; changes among others do not.
func TestUppersChange(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	running := func() []model.Upper { return h.Datapath.Running().Node.Uppers }
	become := func(devices ...config.Device) {
		h.System.SetLinks(func(map[string]config.Link) { h.System.Others = devices })
	}
	both := model.RoleIngress | model.RoleEgress
	if running() != nil {
		t.Fatalf("uppers %+v at start", running())
	}
	for _, step := range []struct {
		name    string
		devices []config.Device
		want    []model.Upper
	}{
		{"joined", []config.Device{{Index: 2, Master: 20}}, []model.Upper{{Index: 20, ID: 201, IDWide: ioam.InterfaceIDWideUnavailable, Roles: both, Proven: true}}},
		{"not alone", []config.Device{{Index: 2, Master: 20}, {Index: 8, Master: 20}}, []model.Upper{{Index: 20, ID: ioam.InterfaceIDUnavailable, IDWide: ioam.InterfaceIDWideUnavailable, Roles: both}}},
		{"left", []config.Device{{Index: 8, Master: 20}}, nil},
		{"a VLAN", []config.Device{{Index: 8, Lower: 2}}, []model.Upper{{Index: 8, ID: 201, IDWide: ioam.InterfaceIDWideUnavailable, Roles: both, VLAN: true, Proven: true}}},
		{"none", nil, nil},
	} {
		become(step.devices...)
		agenttest.Eventually(t, step.name, func() bool { return reflect.DeepEqual(running(), step.want) })
	}
	before := h.Datapath.Applications()
	become(config.Device{Index: 8, Master: 20}, config.Device{Index: 9, Lower: 8})
	h.System.SetLinks(func(l map[string]config.Link) { l["eth1"] = config.Link{Index: 3, MTU: 9000} })
	agenttest.Eventually(t, "a look was taken", func() bool { return h.Status().Interfaces[1].MTU == 9000 })
	if n := h.Datapath.Applications(); n != before {
		t.Errorf("%d generations for bridges of others", n-before)
	}
}
