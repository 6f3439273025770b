// SPDX-License-Identifier: Apache-2.0

package nearword

import (
	"strings"
	"testing"
)

func TestMeant(t *testing.T) {
	const keys = "name interface match flows frequency budget mode tunnel nested options destination destination-port source " +
		"source-port traffic-class type edge-flow edge-to-edge"
	for typed, want := range map[string]string{
		"nome": "name", "tunel": "tunnel", "Flow": "flows", "traffic_class": "traffic-class", // misspelt
		"iface": "interface", "dst": "destination", "src": "source", "freq": "frequency", "opt": "options", "source_prt": "source-port", // shortened
		"trace-type": "type", // too long
		"edge":       "", "in": "", "colour": "", "dev": "", "": "", "x": "",
	} {
		if got := Meant(typed, strings.Fields(keys)); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	if got := Meant("lss", []string{"lost", "loss"}); got != "loss" {
		t.Errorf("lss: %q", got) // the nearest
	}
	if got := Meant("iface", nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}
