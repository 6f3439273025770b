// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// membersOf are devices with these masters.
func membersOf(masterOf map[model.IfIndex]model.IfIndex) (devices []Device) {
	for index, master := range masterOf {
		devices = append(devices, Device{Index: index, Master: master})
	}
	return devices
}

func TestMasters(t *testing.T) {
	const in, out = model.RoleIngress, model.RoleEgress
	interfaces := []model.Interface{
		{Index: 4, ID: 104, IDWide: 1004, Roles: in | out},
		{Index: 5, ID: 105, IDWide: 1005, Roles: out},
	}
	known := func(master model.IfIndex, id ioam.InterfaceID, wide ioam.InterfaceIDWide, roles model.Role) model.Upper {
		return model.Upper{Index: master, ID: id, IDWide: wide, Roles: roles}
	}
	unknown := func(master model.IfIndex, roles model.Role) model.Upper {
		return known(master, ioam.InterfaceIDUnavailable, ioam.InterfaceIDWideUnavailable, roles)
	}
	proven := func(u model.Upper) model.Upper { u.Proven = true; return u }
	type of = map[model.IfIndex]model.IfIndex
	for _, test := range []struct {
		name     string
		masterOf of
		want     []model.Upper
	}{
		{"none", of{}, nil},
		{"of others", of{8: 20}, nil},
		{"of one", of{4: 20}, []model.Upper{proven(known(20, 104, 1004, in|out))}},
		{"of one and another that is not served", of{4: 20, 8: 20}, []model.Upper{unknown(20, in|out)}},
		{"of both", of{4: 20, 5: 20}, []model.Upper{unknown(20, in|out)}},
		{"one each", of{4: 20, 5: 21}, []model.Upper{proven(known(20, 104, 1004, in|out)), known(21, 105, 1005, out)}},
		{"a master's master", of{5: 20, 20: 30}, []model.Upper{known(20, 105, 1005, out), known(30, 105, 1005, out)}},
		{"which has other members", of{5: 20, 20: 30, 8: 30}, []model.Upper{known(20, 105, 1005, out), unknown(30, out)}},
		{"in a bond with others, alone in the bridge", of{5: 20, 8: 20, 20: 30}, []model.Upper{unknown(20, out), unknown(30, out)}},
		{"by ways of their own", of{4: 30, 5: 20, 20: 30}, []model.Upper{known(20, 105, 1005, out), unknown(30, in|out)}},
		{"served itself", of{4: 5}, nil},
		{"served itself, with a master", of{4: 5, 5: 30}, []model.Upper{unknown(30, in|out)}},
		{"of itself", of{4: 20, 20: 20}, []model.Upper{unknown(20, in|out)}},
		{"in a circle", of{4: 20, 20: 30, 30: 20}, []model.Upper{unknown(20, in|out)}},
	} {
		if got := uppers(interfaces, membersOf(test.masterOf)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// A VLAN device has the ids of the interface below it. Its packets are proven to have
// passed the hook unless that could not see through their tags.
func TestVLANDevices(t *testing.T) {
	const in, out = model.RoleIngress, model.RoleEgress
	interfaces := []model.Interface{
		{Index: 4, ID: 104, IDWide: 1004, Roles: in | out},
		{Index: 5, ID: 105, IDWide: 1005, Roles: out},
		{Index: 6, ID: 106, IDWide: 1006, Roles: in},
	}
	vlan := func(index model.IfIndex, id ioam.InterfaceID, roles model.Role, proven bool) model.Upper {
		u := model.Upper{Index: index, ID: id, IDWide: 900 + ioam.InterfaceIDWide(id), Roles: roles, VLAN: true, Proven: proven}
		if id == ioam.InterfaceIDUnavailable {
			u.IDWide = ioam.InterfaceIDWideUnavailable
		}
		return u
	}
	master := func(u model.Upper) model.Upper { u.VLAN = false; return u }
	const none = ioam.InterfaceIDUnavailable
	for _, test := range []struct {
		name    string
		devices []Device
		want    []model.Upper
	}{
		{"on one", []Device{{Index: 40, Lower: 4}}, []model.Upper{vlan(40, 104, in|out, true)}},
		{"on one without the role", []Device{{Index: 40, Lower: 5}}, []model.Upper{vlan(40, 105, out, false)}},
		{"on another", []Device{{Index: 40, Lower: 8}}, nil},
		{"served", []Device{{Index: 5, Lower: 4}}, nil},
		{"two tags", []Device{{Index: 40, Lower: 4}, {Index: 41, Lower: 40}}, []model.Upper{vlan(40, 104, in|out, true), vlan(41, 104, in|out, true)}},
		{"three tags", []Device{{Index: 40, Lower: 4}, {Index: 41, Lower: 40}, {Index: 42, Lower: 41}}, []model.Upper{vlan(40, 104, in|out, true), vlan(41, 104, in|out, true)}},
		{"on a bond", []Device{{Index: 4, Master: 20}, {Index: 6, Master: 20}, {Index: 40, Lower: 20}},
			[]model.Upper{master(vlan(20, none, in|out, true)), vlan(40, none, in|out, true)}},
		{"on a bond of others, too", []Device{{Index: 4, Master: 20}, {Index: 8, Master: 20}, {Index: 40, Lower: 20}},
			[]model.Upper{master(vlan(20, none, in|out, false)), vlan(40, none, in|out, false)}},
		{"in a VRF", []Device{{Index: 40, Lower: 4, Master: 20}}, []model.Upper{master(vlan(20, 104, in|out, true)), vlan(40, 104, in|out, true)}},
		{"in a bridge", []Device{{Index: 40, Lower: 4, Master: 20}, {Index: 20, Bridge: true}, {Index: 41, Lower: 20}},
			[]model.Upper{master(vlan(20, 104, in|out, true)), vlan(40, 104, in|out, true)}},
	} {
		if got := uppers(interfaces, test.devices); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	var many []Device
	for i := range model.IfIndex(model.MaxUppers + 5) {
		many = append(many, Device{Index: 100 + i, Lower: 4})
	}
	if got := uppers(interfaces, many); len(got) != model.MaxUppers || got[0].Index != 100 {
		t.Errorf("%d of many", len(got))
	}
}

func TestResolveUppers(t *testing.T) {
	c := mustParse(t, twoInterfaces)
	host := fakeHost{
		links:   map[string]Link{"eth0": {Index: 4, MTU: 1500}, "eth1": {Index: 9, MTU: 9000}},
		devices: []Device{{Index: 4, Master: 20}},
	}
	r, err := c.Resolve(host)
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Upper{{Index: 20, ID: 777, IDWide: 7777, Roles: model.RoleIngress | model.RoleEgress, Proven: true}}
	if !reflect.DeepEqual(r.Node.Uppers, want) {
		t.Errorf("%+v, want %+v", r.Node.Uppers, want)
	}
	if err := r.Node.Validate(); err != nil {
		t.Error(err)
	}
	c.Interfaces[0].Role, c.Interfaces[0].Boundary, c.Encapsulations = nil, Boundary{}, nil
	if r, err = c.Resolve(host); err != nil || !reflect.DeepEqual(r.Outside, map[model.IfIndex]bool{4: true, 20: true}) {
		t.Errorf("outside are %v, %v", r.Outside, err)
	}
	host.broken = "devices"
	if _, err := c.Resolve(host); err == nil || err.Error() != "look up masters and VLAN devices: no such file" {
		t.Errorf("%v", err)
	}
}

func TestOutside(t *testing.T) {
	const in, out = model.RoleIngress, model.RoleEgress
	interfaces := []model.Interface{
		{Index: 1, Boundary: model.BoundaryDrop}, {Index: 2, Boundary: model.BoundaryDrop},
		{Index: 3, Boundary: model.BoundaryStrip}, {Index: 4, Boundary: model.BoundaryIgnore},
		{Index: 5, Boundary: model.BoundaryDrop, Roles: in}, {Index: 6, Boundary: model.BoundaryDrop, Roles: out},
		{Index: 7, Boundary: model.BoundaryDrop, Roles: in | out},
	}
	type of = map[model.IfIndex]model.IfIndex
	for _, test := range []struct {
		name     string
		masterOf of
		want     []model.IfIndex // besides 1 and 2
	}{
		{"no masters", nil, nil},
		{"a master of one", of{1: 20}, []model.IfIndex{20}},
		{"of both", of{1: 20, 2: 20}, []model.IfIndex{20}},
		{"of one inside", of{1: 20, 7: 20}, nil},
		{"of one that is not served", of{1: 20, 8: 20}, nil},
		{"of one inside alone", of{6: 20}, nil},
		{"of one that strips", of{1: 20, 3: 20}, nil},
		{"of others", of{8: 20}, nil},
		{"a master's master", of{1: 20, 20: 30}, []model.IfIndex{20, 30}},
		{"which has another member", of{1: 20, 20: 30, 8: 30}, []model.IfIndex{20}},
		{"served inside", of{1: 7}, nil},
		{"of itself", of{1: 20, 20: 20}, nil},
	} {
		want := map[model.IfIndex]bool{1: true, 2: true}
		for _, i := range test.want {
			want[i] = true
		}
		if got := edgeDevices(interfaces, membersOf(test.masterOf)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", test.name, got, want)
		}
	}
	devices := []Device{{Index: 40, Lower: 1}, {Index: 41, Lower: 40}, {Index: 42, Lower: 7}, {Index: 3, Lower: 1}}
	if got := edgeDevices(interfaces, devices); !reflect.DeepEqual(got, map[model.IfIndex]bool{1: true, 2: true, 40: true, 41: true}) {
		t.Errorf("with VLAN devices: %v", got)
	}
}
