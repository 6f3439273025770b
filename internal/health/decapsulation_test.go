// SPDX-License-Identifier: Apache-2.0

package health

import (
	"net/netip"
	"testing"
)

func TestDecapsulation(t *testing.T) {
	for _, tt := range []struct {
		anySource, bare, noNamespaces bool
		want                          Code
	}{
		{anySource: true},
		{anySource: true, bare: true, want: DecapsulationOpen},
		{anySource: true, bare: true, noNamespaces: true, want: DecapsulationOpen},
		{bare: true},
		{bare: true, noNamespaces: true},
		{anySource: true, noNamespaces: true, want: DecapsulationIdle},
		{noNamespaces: true, want: DecapsulationIdle},
	} {
		n := healthyNode()
		n.Decapsulations = []Decapsulation{{netip.MustParseAddr("2001:db8::3"), tt.anySource, tt.bare, tt.noNamespaces}}
		ws := CheckNode(n)
		if got := len(ws) == 1 && ws[0].Code == tt.want; got != (tt.want != "") || len(ws) > 1 {
			t.Errorf("%+v: %+v", tt, ws)
		}
	}
}
