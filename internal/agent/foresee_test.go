// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
)

// What a file alone shows is foreseen; what depends on the machine (clock, routes,
// addresses, MTUs) is not.
func TestForesee(t *testing.T) {
	const dex = "node: {timestamp-format: ptp}\ninterfaces: [{name: eth9, role: [egress]}]\nnamespaces: [{id: 7}]\n" +
		"encapsulations: [{name: a, interface: eth9, mode: inline, MATCHoptions: [{dex: {namespace: 7, trace-type: 0x800000, " +
		"extension-flags: [EXTENSIONS]}}]}]\n"
	for _, tt := range []struct {
		name, text string
		want       []health.Code
	}{
		{"right", "node: {id: 2}", nil},
		{"a tunnel without ingress", "interfaces: [{name: eth9}]\nnamespaces: [{id: 7}]\ndecapsulations: [{tunnel-destination: 2001:db8::3}]", []health.Code{health.DecapUnreached}},
		{"no sink", "namespaces: [{id: 7, export: every}]", []health.Code{health.ExportsUnsent}},
		{"no collector", strings.NewReplacer("EXTENSIONS", "flow-id", "MATCH", "").Replace(dex), []health.Code{health.CollectorsUnknown}},
		{"shadowed", strings.NewReplacer("EXTENSIONS", "flow-id", "MATCH", "").Replace(dex[:len(dex)-2]) + ", {name: b, interface: eth9, mode: inline, match: {flow-label: 7}, options: [{dex: {namespace: 7, trace-type: 0x800000}}]}]\n",
			[]health.Code{health.CollectorsUnknown, health.EncapShadowed}},
		{"flows without sessions", "interfaces: [{name: eth9}]\nresponders: [{protocol: twamp-light, allow: [\"::/0\"]}]\n" +
			`flows: [{name: a, direction: in, source: 2001:db8::1, segments: ["fc00:2::e"]}, {name: b, direction: in, source: 2001:db8::2, segments: ["fc00:2::e"]}]`,
			[]health.Code{health.SessionMissing}},
		{"perhaps own packets", strings.NewReplacer("EXTENSIONS", "flow-id", "MATCH", "match: {source: 2001:db8::1}, ").Replace(dex), nil},
		{"sequences alone", strings.NewReplacer("EXTENSIONS", "sequence", "MATCH", "match: {source: 2001:db8::1}, ").Replace(dex), []health.Code{health.SequenceUnjoined}},
	} {
		c, err := config.Parse("-", []byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []health.Code
		for _, w := range Foresee(c) {
			got = append(got, w.Code)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
