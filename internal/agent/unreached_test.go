// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/waymark-net/waymark/internal/health"
)

// Where no interface takes IOAM in, nothing can end.
func TestUnreachedDecapsulationIsWarnedOf(t *testing.T) {
	const tunnel = "decapsulations: [{tunnel-destination: \"2001:db8:ff::3\"}]\n"
	config := func(role, namespace string) string {
		return "node: {id: 2}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, role: [" + role +
			"]}, {name: eth1}, {name: away}]\nnamespaces: [{id: 7, remove: " + namespace + "}]\n"
	}
	for _, tt := range []struct {
		name, yaml string
		warned     bool
	}{
		{"nothing ends", config("egress", "false"), false},
		{"tunnel, no role", config("", "false") + tunnel, true},
		{"tunnel, egress alone", config("egress", "false") + tunnel, true},
		{"tunnel, ingress", config("ingress", "false") + tunnel, false},
		{"inline, egress alone", config("egress", "true"), true},
		{"inline, ingress", config("ingress", "true"), false},
	} {
		h := newHarness(t, tt.yaml)
		h.Start()
		if got := h.Warned(health.DecapUnreached); got != tt.warned {
			t.Errorf("%s: warned %v, want %v", tt.name, got, tt.warned)
		}
	}
}
