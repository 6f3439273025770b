// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const directExports = `node: {flow-seed: 0x1, flows: 8, export-interval: 1m30s, export-limit: 1/1, export-rate: 5}
interfaces: [{name: eth0, role: [ingress, egress]}]
namespaces:
  - {id: 123, export: sample, sample: 100}
  - {id: 124, export: every}
  - {id: 125, export: aggregate, remove: true}
  - {id: 126}
encapsulations:
  - name: a
    interface: eth0
    flows: 1/64
    mode: inline
    options:
      - dex: {namespace: 123, trace-type: 0xc00000, extension-flags: [flow-id, sequence]}
      - trace: {namespace: 123, type: 0x800000, size: 4}
      - dex: {namespace: 124, trace-type: 0xfe8000, extension-flags: [sequence], flow-id: flow-label, option-type: 0x31}
  - name: b
    interface: eth0
    tunnel: {destination: 2001:db8::2}
    options: [{dex: {namespace: 126, trace-type: 0x800000, extension-flags: [flow-id], flow-id: 7, option-type: 0x11}}]
`

func TestDirectExport(t *testing.T) {
	c := mustParse(t, directExports)
	source, destination := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	host := fakeHost{links: map[string]Link{"eth0": {Index: 4, MTU: 1500}}, sources: map[netip.Addr]netip.Addr{destination: source}}
	r, err := c.Resolve(host)
	if err != nil {
		t.Fatal(err)
	}
	n := r.Node
	if n.FlowSeed != 1 || n.FlowEntries != 8 || n.ExportLimit != 1 || n.ExportRate != 5 ||
		time.Duration(c.Node.ExportInterval) != 90*time.Second {
		t.Errorf("the node is %+v", n)
	}
	for i, want := range []model.Namespace{
		{ID: 123, Export: model.ExportSample, Sample: 100}, {ID: 124, Export: model.ExportEvery},
		{ID: 125, Export: model.ExportAggregate, Remove: true}, {ID: 126},
	} {
		want.Data, want.DataWide = ioam.DataUnavailable, ioam.DataWideUnavailable
		if n.Namespaces[i] != want {
			t.Errorf("namespace %+v, want %+v", n.Namespaces[i], want)
		}
	}
	a, b := n.Encapsulations[0], n.Encapsulations[1]
	want := []model.InsertedOption{
		{DirectExport: &model.DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: 0xc0, OptionType: ioam.OptionIOAMStatic}},
		{Trace: &model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4}},
		{DirectExport: &model.DirectExportOption{Namespace: 124, Type: 0xfe8000, ExtensionFlags: 0x40, FlowID: model.FlowIDSource{Kind: model.FlowIDLabel}, OptionType: ioam.OptionIOAM}},
	}
	if a.Flows != 64 || !reflect.DeepEqual(a.Options, want) {
		t.Errorf("a is %+v", a)
	}
	want = []model.InsertedOption{{DirectExport: &model.DirectExportOption{
		Namespace: 126, Type: 0x800000, ExtensionFlags: 0x80, FlowID: model.FlowIDSource{Kind: model.FlowIDFixed, Fixed: 7},
		OptionType: ioam.OptionIOAMStatic}}}
	if b.Flows != 1 || b.TunnelSource != source || b.TunnelDestination != destination || !reflect.DeepEqual(b.Options, want) {
		t.Errorf("b is %+v", b)
	}
	if len(r.Derived) != 1 || r.Derived[destination] != source || r.Sourceless != nil {
		t.Errorf("derived %v, without %v", r.Derived, r.Sourceless)
	}

	text := string(c.Marshal())
	for _, line := range []string{
		"  flow-seed: 0x0000000000000001\n", "  export-interval: 1m30s\n", "    export: sample\n    sample: 100\n", "    flows: 1/64\n",
		"          extension-flags: [flow-id, sequence]\n          flow-id: hash\n          option-type: 0x11\n",
		"          flow-id: flow-label\n          option-type: 0x31\n", "          flow-id: 0x00000007\n", "    tunnel:\n      destination: 2001:db8::2\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if again := mustParse(t, text); !same(c, again) {
		t.Errorf("%s\nreads as another configuration", text)
	}
	json, err := c.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, string(json)); !same(c, again) {
		t.Errorf("%s\nreads as another configuration", json)
	}
}

func TestFaultsOfDirectExport(t *testing.T) {
	const before = "interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123}]\n"
	rule := func(more, options string) string {
		return before + "encapsulations: [{name: a, interface: eth0, mode: inline" + more + ", options: [" + options + "]}]"
	}
	checkFaults(t, []faultCase{
		{"node", "node: {flow-seed: x, flows: 0, export-interval: 500ms, export-limit: 2/100, export-rate: 0}", []string{
			`1:19: node.flow-seed: "x" is not a number; write a number from 0 to 0xffffffffffffffff`,
			`1:29: node.flows: 0 is not possible; write a number from 1 to 1048576`,
			`1:49: node.export-interval: 500ms is less than 1s; write whole seconds, minutes or hours up to 24h, such as 30s or 10m`,
			`1:70: node.export-limit: 2/100 is not 1/N; write 1/N with 1 ≤ N ≤ 1000000, such as 1/100`,
			`1:90: node.export-rate: 0 is not possible; write a number from 1 to 100000000`}},
		{"a limit in words", "node: {export-limit: none}", []string{
			`1:22: node.export-limit: "none" is not 1/N; write 1/N with 1 ≤ N ≤ 1000000, such as 1/100`}},
		{"namespaces", "namespaces:\n  - {id: 1, export: some}\n  - {id: 2, export: sample}\n  - {id: 3, export: every, sample: 5}\n  - {id: 4, export: sample, sample: 0}", []string{
			`2:21: namespaces[0].export: "some" is not a valid value; write one of none, every, aggregate, sample`,
			`3:5: namespaces[1].sample: export sample needs the number n of packets; use n in 1…1000000: a postcard for every n-th packet`,
			`4:36: namespaces[2].sample: export every does not sample; remove it, or use export: sample`,
			`5:37: namespaces[3].sample: 0 is not possible; write a number from 1 to 1000000`}},
		{"neither", rule("", "{}"), []string{
			`3:69: encapsulations[0].options[0].trace: neither a trace, a Direct Export, a proof nor Edge-to-Edge; add trace: {…}, dex: {…}, pot: {…} or e2e: {…}`}},
		{"both", rule("", "{trace: {namespace: 123, type: 0x800000, size: 4}, dex: {namespace: 123, trace-type: 0x800000}}"), []string{
			`3:77: encapsulations[0].options[0].trace: several kinds in one option; give each its own entry of the list`}},
		{"missing keys", rule("", "{dex: {}}"), []string{
			`3:75: key "namespace" is missing in encapsulations[0].options[0].dex; add it: a number from 0 to 65535`,
			`3:75: key "trace-type" is missing in encapsulations[0].options[0].dex; add it: a number from 0 to 0xffffff, or names of fields such as [ids, timestamps, queue]`}},
		{"values", rule(", flows: 5", "{dex: {namespace: 123, trace-type: 0x810000, extension-flags: [flow-id, flow-id], flow-id: none, option-type: 0x32}}"), []string{
			`3:66: encapsulations[0].flows is the number 5; write 1/N with 1 ≤ N ≤ 1000000, such as 1/100`,
			`3:114: encapsulations[0].options[0].dex.trace-type: 0x810000 has the checksum complement (bit 7), which has no meaning in a Direct Export; use bits of 0xfef002`,
			`3:151: encapsulations[0].options[0].dex.extension-flags lists flow-id twice; remove one`,
			`3:170: encapsulations[0].options[0].dex.flow-id: "none" is not a number; write hash, flow-label, or a number from 0 to 0xffffffff`,
			`3:189: encapsulations[0].options[0].dex.option-type: 0x32 is not an option type of IOAM; write 0x11 or 0x31`}},
		{"all of several options", rule("", "{dex: {namespace: 9, trace-type: 0x810000}}, {dex: {namespace: 123, trace-type: 0}}, {dex: {namespace: 123, trace-type: 0x800800}}"), []string{
			`3:102: encapsulations[0].options[0].dex.trace-type: 0x810000 has the checksum complement (bit 7), which has no meaning in a Direct Export; use bits of 0xfef002`,
			`3:149: encapsulations[0].options[1].dex.trace-type: trace type not usable: 0 asks for no data; use bits of 0xfef002`,
			`3:172: encapsulations[0].options[2].dex.namespace: 123 is also the namespace of options[1]; give each Direct Export of a header its own namespace`,
			`3:189: encapsulations[0].options[2].dex.trace-type: trace type not usable: 0x800800 has undefined bits (12–21, mask 0x000ffc); use bits of 0xfef002`}},
		{"fixed", rule(", flows: 1/2", "{dex: {namespace: 123, trace-type: 0x800000, flow-id: 5, extension-flags: [flow-id]}}"), []string{
			`3:135: encapsulations[0].options[0].dex.flow-id: one Flow-ID for all packets does not distinguish the 1/2 of the flows that are selected; use hash or flow-label, or remove flows`}},
		{"not carried", rule("", "{dex: {namespace: 123, trace-type: 0x800000, flow-id: flow-label}}"), []string{
			`3:123: encapsulations[0].options[0].dex.flow-id: the option does not carry a flow-id or number packets by it; add extension-flags: [flow-id], or remove flow-id`}},
	})
}

// A tunnel without a source waits for one, unless the file is strict.
func TestResolveWithoutSource(t *testing.T) {
	own, linkLocal, away := netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::3")
	text := strings.Replace(directExports, "mode: inline", "tunnel: {destination: 2001:db8::3}", 1)
	for _, test := range []struct {
		name    string
		sources map[netip.Addr]netip.Addr
		causes  []string
	}{
		{"no route", nil, []string{"no route to 2001:db8::3", "no route to 2001:db8::2"}},
		{"itself", map[netip.Addr]netip.Addr{own: own, away: own}, []string{"2001:db8::2 is an address of this node"}},
		{"link-local", map[netip.Addr]netip.Addr{own: away, away: linkLocal}, []string{"this node would send to 2001:db8::3 from fe80::1, which cannot be reached from beyond the link"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			host := fakeHost{links: map[string]Link{"eth0": {Index: 4, MTU: 1500}}, sources: test.sources}
			r, err := mustParse(t, text).Resolve(host)
			if err != nil {
				t.Fatal(err)
			}
			var causes []string
			for _, s := range r.Sourceless {
				causes = append(causes, s.Cause)
			}
			if !slices.Equal(causes, test.causes) || len(r.Node.Encapsulations) != 2-len(causes) || len(r.Derived) != 2 {
				t.Errorf("%q, %d encapsulations, derived %v", causes, len(r.Node.Encapsulations), r.Derived)
			}
			_, err = mustParse(t, text+"strict: true\n").Resolve(host)
			if _, parsed := ParseFor(host, "test.yaml", []byte(text+"strict: true\n")); fmt.Sprint(parsed) != fmt.Sprint(err) {
				t.Errorf("read: %v\nresolved: %v", parsed, err)
			}
			for _, cause := range test.causes {
				want := " has no source: " + cause + "; set source to an address of this node, make the destination reachable, " +
					"or set strict: false to serve it once it has a source"
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("strict: %v, want %s", err, want)
				}
			}
		})
	}
}
