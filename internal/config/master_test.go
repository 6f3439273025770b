// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

func TestMasters(t *testing.T) {
	const in, out = model.RoleIngress, model.RoleEgress
	interfaces := []model.Interface{
		{Index: 4, ID: 104, IDWide: 1004, Roles: in | out},
		{Index: 5, ID: 105, IDWide: 1005, Roles: out},
	}
	known := func(master model.IfIndex, id ioam.InterfaceID, wide ioam.InterfaceIDWide, roles model.Role) model.Master {
		return model.Master{Index: master, ID: id, IDWide: wide, Roles: roles}
	}
	unknown := func(master model.IfIndex, roles model.Role) model.Master {
		return known(master, ioam.InterfaceIDUnavailable, ioam.InterfaceIDWideUnavailable, roles)
	}
	type of = map[model.IfIndex]model.IfIndex
	for _, test := range []struct {
		name     string
		masterOf of
		want     []model.Master
	}{
		{"none", of{}, nil},
		{"of others", of{8: 20}, nil},
		{"of one", of{4: 20}, []model.Master{known(20, 104, 1004, in|out)}},
		{"of one and another that is not served", of{4: 20, 8: 20}, []model.Master{unknown(20, in|out)}},
		{"of both", of{4: 20, 5: 20}, []model.Master{unknown(20, in|out)}},
		{"one each", of{4: 20, 5: 21}, []model.Master{known(20, 104, 1004, in|out), known(21, 105, 1005, out)}},
		{"a master's master", of{5: 20, 20: 30}, []model.Master{known(20, 105, 1005, out), known(30, 105, 1005, out)}},
		{"which has other members", of{5: 20, 20: 30, 8: 30}, []model.Master{known(20, 105, 1005, out), unknown(30, out)}},
		{"in a bond with others, alone in the bridge", of{5: 20, 8: 20, 20: 30}, []model.Master{unknown(20, out), unknown(30, out)}},
		{"by ways of their own", of{4: 30, 5: 20, 20: 30}, []model.Master{unknown(30, in|out), known(20, 105, 1005, out)}},
		{"served itself", of{4: 5}, nil},
		{"served itself, with a master", of{4: 5, 5: 30}, []model.Master{unknown(30, in|out)}},
		{"of itself", of{4: 20, 20: 20}, []model.Master{unknown(20, in|out)}},
	} {
		if got := masters(interfaces, test.masterOf); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	deepest := of{}
	for i := range model.IfIndex(20) {
		deepest[4+i*100] = 4 + (i+1)*100
	}
	if got := masters(interfaces, deepest); len(got) != nesting {
		t.Errorf("%d masters of one interface, want at most %d", len(got), nesting)
	}
}

func TestResolveMasters(t *testing.T) {
	c := mustParse(t, twoInterfaces)
	host := fakeHost{
		links:   map[string]Link{"eth0": {Index: 4, MTU: 1500, IsMember: true}, "eth1": {Index: 9, MTU: 9000}},
		masters: map[model.IfIndex]model.IfIndex{4: 20},
	}
	r, err := c.Resolve(host)
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Master{{Index: 20, ID: 777, IDWide: 7777, Roles: model.RoleIngress | model.RoleEgress}}
	if !reflect.DeepEqual(r.Node.Masters, want) {
		t.Errorf("%+v, want %+v", r.Node.Masters, want)
	}
	if err := r.Node.Validate(); err != nil {
		t.Error(err)
	}
	c.Interfaces[0].Role, c.Interfaces[0].Boundary, c.Encapsulations = nil, model.BoundaryDrop, nil
	if r, err = c.Resolve(host); err != nil || !reflect.DeepEqual(r.Outside, map[model.IfIndex]bool{4: true, 20: true}) {
		t.Errorf("outside are %v, %v", r.Outside, err)
	}
	host.broken = "masters"
	if _, err := c.Resolve(host); err == nil || err.Error() != "look up the masters of interfaces: no such file" {
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
		if got := outside(interfaces, test.masterOf); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", test.name, got, want)
		}
	}
}
