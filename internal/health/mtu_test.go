// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"strings"
	"testing"
)

// Of several encapsulations at one interface, the first is the one whose cure suffices for all,
// whatever their names and order; those that mode full would have are no more than information.
func TestWorstMTUFirst(t *testing.T) {
	list := []Encapsulation{
		{Name: "dex", Interface: "eth0", Insertion: 24}, {Name: "trace", Interface: "eth0", Insertion: 56},
		{Name: "pot", Interface: "eth0", Insertion: 32}, {Name: "other", Interface: "eth1", Insertion: 40},
		{Name: "nowhere", Interface: "eth7", Insertion: 400},
	}
	n := healthyNode()
	n.Interfaces[0].MTU, n.Interfaces[1].MTU = 1500, 1500
	for _, planned := range []bool{false, true} {
		n.Encapsulations, n.Planned = list, nil
		severity, words := Degraded, "encapsulation trace adds 56 bytes, the MTU of eth0 is 1500: packets over 1444 bytes leave without"
		if planned {
			n.Encapsulations, n.Planned = nil, list
			severity = Info
			words = "in mode full, encapsulation trace would add 56 bytes, the MTU of eth0 is 1500: packets over 1444 bytes would leave"
		}
		problems := Problems(CheckNode(n))
		if len(problems) != 1 || len(problems[0].Warnings) != 4 {
			t.Fatalf("planned %v: %+v", planned, problems)
		}
		first := problems[0].Warnings[0]
		if first.Code != MTUTooSmall || first.Severity != severity || first.Degree != 56 || !strings.HasPrefix(first.Text, words) ||
			!strings.HasPrefix(first.Cure, "ip link set eth0 mtu 1556 along") {
			t.Errorf("planned %v: %+v", planned, first)
		}
		if got := PlannedMTU(n.Interfaces, list); planned && !slices.Equal(got, CheckNode(n)) {
			t.Errorf("%+v", got)
		}
	}
}

// A failed reload is before what has the same severity and more places.
func TestFailedReloadFirst(t *testing.T) {
	ws := []Warning{
		New(MTUTooSmall, "a", "", ""), New(MTUTooSmall, "b", "", ""), New(ReloadFailed, "", "", ""), New(KernelIOAM6, "z", "", ""),
	}
	var got []Code
	for _, p := range Problems(ws) {
		got = append(got, p.Warnings[0].Code)
	}
	if want := []Code{KernelIOAM6, ReloadFailed, MTUTooSmall}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Of one cause, the first is that which lacks most, also if the path or the link lacks it.
func TestWorstOfFamilyFirst(t *testing.T) {
	small, path := New(MTUTooSmall, "a", "", ""), New(PathMTULowered, "b", "", "")
	small.Degree, path.Degree = 24, 120
	if p := Problems([]Warning{small, path}); len(p) != 1 || p[0].Warnings[0] != path {
		t.Errorf("%+v", p)
	}
}
