// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// rule is a configuration whose one encapsulation a test completes; its text
// begins in line 4.
func rule(lines ...string) string {
	return "interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123}]\nencapsulations:\n  - name: core\n    interface: eth0\n    " +
		strings.Join(lines, "\n    ") + "\n"
}

const (
	inline = "mode: inline"
	trace  = "options: [{trace: {namespace: 123, type: 0xf00000, size: 64}}]"
)

// faultCase is a wrong file and all its errors, each with its place.
type faultCase struct {
	name, text string
	want       []string
}

func checkFaults(t *testing.T, cases []faultCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("F", []byte(tt.text))
			var want []string
			for _, w := range tt.want {
				want = append(want, "F:"+w)
			}
			if got := fmt.Sprint(err); got != strings.Join(want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

// Errors that do not depend on the meaning of keys.
func TestFaultsOfForm(t *testing.T) {
	checkFaults(t, []faultCase{
		{"unknown key", "nodes: {id: 1}", []string{`1:1: unknown key "nodes" in the file; did you mean "node"?`}},
		{"unknown key far from any", "node: {color: red}", []string{`1:8: unknown key "color" in node; use the keys name, mode, read-group, id, id-wide, timestamp-format, next-hops, flow-seed, flows, export-interval, export-limit, export-rate, loopback-limit, loopback-rate, delays, kernel-events, queue-delay, receive-offload, compatibility`}},
		{"duplicate key", "node: {id: 1}\nstrict: true\nnode: {id: 2}", []string{`3:1: key "node" of the file is already in line 1; remove one`}},
		{"missing key", "interfaces:\n  - id: 4", []string{`2:5: key "name" is missing in interfaces[0]; add it, as in "name: VALUE"`}},
		{"wrong types", "node: {id: [1]}\ninterfaces: {name: eth0}\nstrict: \"true\"\nmetrics: {listen: 9598}", []string{
			`1:12: node.id is a list; write a number from 0 to 16777215`,
			`2:13: interfaces is a mapping; write a list: - before each item`,
			`3:9: strict is the text "true"; write true or false`,
			`4:19: metrics.listen is the number 9598; write an address and port such as "[::1]:9598", or none; as text, 9598 needs quotes`}},
		{"an error is not reported twice", "namespaces: [{id: x}]\ninterfaces: [{name: [y]}]\nencapsulations: [{name: a, interface: y, mode: inline, options: [{trace: {namespace: 5, type: 1x, size: 8}}]}]", []string{
			`1:19: namespaces[0].id: "x" is not a number; write a number from 0 to 65535`,
			`2:21: interfaces[0].name is a list; write text`,
			`3:95: encapsulations[0].options[0].trace.type: "1x" is not a number; write a number from 0 to 0xffffff, or names of fields such as [ids, timestamps, queue]`}},
		{"errors in later options keep their place", rule(inline, "options: [{trace: 3}, {trace: {namespace: 123, type: 0x800000, size: 3}}]"), []string{
			`7:23: encapsulations[0].options[0].trace is the number 3; write a mapping with the keys namespace, type, size, loopback, incremental`,
			`7:74: encapsulations[0].options[1].trace.size: 3 bytes are not possible; use a multiple of 4 in 4…244`}},
		{"YAML beyond the file's needs", "node: &a {id: 1}\nstrict: !!bool true\nmetrics: *a", []string{
			`1:7: node uses an anchor, which is not supported here; write the value itself`,
			`2:9: strict uses a tag, which is not supported here; write the value itself`,
			`3:10: metrics uses an alias, which is not supported here; write the value itself`}},
		{"empty", "# nothing\n", []string{`1:1: the file is empty; write at least: node: {}`}},
		{"two documents", "node: {}\n---\nnode: {}\n", []string{`3:1: the file holds several documents; keep one, without --- between`}},
		{"no mapping", "[1, 2]", []string{`1:1: the file is a list; write a mapping with the keys node, interfaces, namespaces, encapsulations, decapsulations, tunnel-destinations, export, collectors, measurement, names, names-from, flows, stamp, responders, path-trace, probes, metrics, history, strict`}},
		{"syntax", "node:\n  id: 2\n id-wide: 3\n", []string{`3:2: this is not YAML: value is not allowed in this context; correct the text here or in the line above`}},
		{"address without quotes", "export:\n  - {kind: ipfix, address: udp://[2001:db8::9]:4739}\n", []string{`2:47: this is not YAML: found an invalid key for this map; correct the text here or in the line above; between brackets, put addresses with colons in quotes`}},
		{"tab", "node:\n\tid: 2\n", []string{`2:1: this is not YAML: a tab is used where only spaces may be; indent with spaces`}},
		{"tab in a list", "interfaces:\n  - name: e\n\tid: 2\n", []string{`3:1: this is not YAML: a tab is used where only spaces may be; indent with spaces`}},
		{"text in place of a list", "interfaces: [{name: e, role: both}]\nnamespaces: red", []string{
			`1:30: interfaces[0].role is the text "both"; write a list, each item one of ingress, egress`,
			`2:13: namespaces is the text "red"; write a list: - before each item`}},
		{"not UTF-8", "node: {}\n# é \xff", []string{`2:5: the file is not UTF-8 text; save it as UTF-8`}},
		{"brackets", "node: " + strings.Repeat("[", 100), []string{`1:39: values are nested too deep; close the brackets that are open, or indent less`}},
		{"indentation", strings.Repeat("- ", 1000), []string{`1:129: values are nested too deep; close the brackets that are open, or indent less`}},
	})
}

// Errors in a rule.
func TestFaultsOfEncapsulations(t *testing.T) {
	checkFaults(t, []faultCase{
		{"size not a multiple of 4", rule(inline, "options:", "  - trace: {namespace: 123, type: 0xf00000, size: 62}"), []string{
			`8:55: encapsulations[0].options[0].trace.size: 62 bytes are not possible; use a multiple of 4 in 4…244`}},
		{"type bits refused", rule(inline, "options: [{trace: {namespace: 123, type: 0x800800, size: 4}}, {trace: {namespace: 123, type: 0x800001, size: 4}}]"), []string{
			`7:46: encapsulations[0].options[0].trace.type: trace type not usable: 0x800800 has undefined bits (12–21, mask 0x000ffc); use bits of 0xfff002`,
			`7:98: encapsulations[0].options[1].trace.type: trace type not usable: 0x800001 has the reserved bit 23; use bits of 0xfff002`}},
		{"type zero", rule(inline, "options: [{trace: {namespace: 123, type: 0, size: 4}}]"), []string{
			`7:46: encapsulations[0].options[0].trace.type: trace type not usable: 0 asks for no data; use bits of 0xfff002`}},
		{"no tunnel", rule("mode: encap", trace), []string{
			`6:11: encapsulations[0] has mode encap and no tunnel; add tunnel: {destination: ADDRESS}, or set mode: inline`}},
		{"no tunnel, mode by default", rule(trace), []string{
			`4:5: encapsulations[0] has mode auto and no tunnel; add tunnel: {destination: ADDRESS}, or set mode: inline`}},
		{"tunnel without destination", rule("tunnel: {source: 2001:db8::1}", trace), []string{
			`6:13: key "destination" is missing in encapsulations[0].tunnel; add it: an IPv6 address such as 2001:db8::1`}},
		{"tunnel with inline", rule(inline, trace, "tunnel: {source: 2001:db8::1, destination: 2001:db8::2}"), []string{
			`8:22: encapsulations[0].tunnel.source: mode inline has no tunnel; remove it, or use mode encap or auto`,
			`8:48: encapsulations[0].tunnel.destination: mode inline has no tunnel; remove it, or use mode encap or auto`}},
		{"frequency 0/0", rule(inline, trace, "frequency: 0/0"), []string{`8:16: encapsulations[0].frequency: 0/0 is not possible; write K/N with 1 ≤ K ≤ N ≤ 1000000, such as 1/100, or a percentage such as 10%`}},
		{"frequency beyond its bounds", rule(inline, trace, "frequency: 3/2"), []string{`8:16: encapsulations[0].frequency: 3/2 is not possible; write K/N with 1 ≤ K ≤ N ≤ 1000000, such as 1/100, or a percentage such as 10%`}},
		{"frequency without n", rule(inline, trace, "frequency: half"), []string{`8:16: encapsulations[0].frequency: "half" is not K/N; write K/N with 1 ≤ K ≤ N ≤ 1000000, such as 1/100, or a percentage such as 10%`}},
		{"IPv4", rule(inline, trace, "match: {destination: 192.0.2.0/24, source: ::ffff:10.0.0.1}") + "decapsulations: [{tunnel-destination: 192.0.2.1}]", []string{
			`8:26: encapsulations[0].match.destination: 192.0.2.0 is an IPv4 address; write an IPv6 prefix such as 2001:db8:2::/64`,
			`8:48: encapsulations[0].match.source: ::ffff:10.0.0.1 is an IPv4 address; write an IPv6 prefix such as 2001:db8:2::/64`,
			`9:39: decapsulations[0].tunnel-destination: 192.0.2.1 is an IPv4 address; write an IPv6 address such as 2001:db8::1`}},
		{"tunnel to itself", rule("mode: encap", trace, "tunnel: {source: 2001:db8::1, destination: 2001:db8:0::1}"), []string{
			`8:48: encapsulations[0].tunnel.destination: 2001:db8::1 is also the tunnel's source; name the node that decapsulates`}},
		{"addresses that no tunnel can have", rule("mode: encap", trace, "tunnel: {source: ::1, destination: ff02::1}") +
			"decapsulations: [{tunnel-destination: '::'}, {tunnel-destination: fe80::1}]", []string{
			`8:22: encapsulations[0].tunnel.source: ::1 is the loopback address; use a unicast IPv6 address, such as 2001:db8:3::1`,
			`8:40: encapsulations[0].tunnel.destination: ff02::1 is a multicast address; use a unicast IPv6 address, such as 2001:db8:3::1`,
			`9:39: decapsulations[0].tunnel-destination: :: is the unspecified address; use a unicast IPv6 address, such as 2001:db8:3::1`,
			`9:67: decapsulations[1].tunnel-destination: fe80::1 is a link-local address; use an address that is valid beyond the link, such as 2001:db8:3::1`}},
		{"no room for this node", rule(inline, "options: [{trace: {namespace: 123, type: 0xc00000, size: 4}}]"), []string{
			`7:62: encapsulations[0].options[0].trace.size: 4 bytes are too small for this node's own data of 8; use 8 bytes for each node of the path`}},
		{"encapsulation twice", rule(inline, trace, "frequency: 1/2") + "  - {name: core, interface: eth0, " + inline + ", " + trace + "}", []string{
			`9:12: encapsulations[1].name: "core" is also the name of encapsulations[0]; give each encapsulation its own name`}},
		{"interface that is not served", "namespaces: [{id: 1}]\nencapsulations:\n  - {name: a, interface: eth9, mode: inline, options: []}", []string{
			`3:26: encapsulations[0].interface: "eth9" is not an interface that this node serves; add it to interfaces, with the role egress`,
			`3:55: encapsulations[0].options: 0 options; give 1…9`}},
		{"interface without egress", "interfaces: [{name: a}]\nnamespaces: [{id: 123}]\nencapsulations: [{name: x, interface: a, " + inline + ", " + trace + "}]", []string{
			`3:39: encapsulations[0].interface: "a" lacks the egress role, so no IOAM may leave there; add egress to its role`}},
		{"mainline, fast in XDP", "node: {compatibility: mainline}\ninterfaces: [{name: a, forwarding: fast}, {name: b, forwarding: fast, attach: xdp}, {name: c, forwarding: fast, attach: tcx}, {name: d, forwarding: fast, attach: clsact}, {name: e, attach: xdp}]", []string{
			`2:36: interfaces[0].forwarding: fast with attach auto bypasses the queue whose depth Linux writes, so it is not possible with compatibility mainline; use attach: tcx (clsact before Linux 6.6), forwarding: stack, or compatibility: default`,
			`2:65: interfaces[1].forwarding: fast with attach xdp bypasses the queue whose depth Linux writes, so it is not possible with compatibility mainline; use attach: tcx (clsact before Linux 6.6), forwarding: stack, or compatibility: default`}},
		{"mainline, fast in an unknown hook", "node: {compatibility: mainline}\ninterfaces: [{name: a, forwarding: fast, attach: tc}]", []string{
			`2:50: interfaces[0].attach: "tc" is not a valid value; write one of auto, xdp, tcx, clsact`}},
		{"no room for any node", rule(inline, "options: [{trace: {namespace: 9, type: 0xc00000, size: 4}}]"), []string{
			`7:60: encapsulations[0].options[0].trace.size: 4 bytes are too small for one node's data of 8; use 8 bytes for each node of the path`}},
		{"prefix with host bits", rule(inline, trace, "match: {destination: 2001:db8::1/64}"), []string{
			`8:26: encapsulations[0].match.destination: 2001:db8::1/64 has bits set after its prefix length (the prefix is 2001:db8::/64); write an IPv6 prefix such as 2001:db8:2::/64`}},
		{"prefix length", rule(inline, trace, "match: {destination: 2001:db8::/129}"), []string{
			`8:26: encapsulations[0].match.destination: the prefix length of "2001:db8::/129" is not a number from 0 to 128; write an IPv6 prefix such as 2001:db8:2::/64`}},
		{"ports", rule(inline, trace, "match: {source-port: 9-3, destination-port: 65536, next-header: carrier-pigeon}"), []string{
			`8:26: encapsulations[0].match.source-port: the range 9-3 ends before it begins; write a port such as 4242 or a range such as 1000-2000`,
			`8:49: encapsulations[0].match.destination-port: "65536" is neither a port nor a range of ports; write a port such as 4242 or a range such as 1000-2000`,
			`8:69: encapsulations[0].match.next-header: "carrier-pigeon" is not a known protocol; write a number from 0 to 255 or one of tcp, udp, icmpv6, sctp, dccp, udplite, ipv6, gre, esp, none`}},
	})
}

// Consequences of an error are not reported as errors.
func TestNothingFollowsFromAFault(t *testing.T) {
	const tunnel = "tunnel: {source: 2001:db8::1, destination: 2001:db8::2}"
	checkFaults(t, []faultCase{
		{"unknown mode", rule("mode: tunnel", trace, tunnel), []string{
			`6:11: encapsulations[0].mode: "tunnel" is not a valid value; write one of inline, encap, auto`}},
		{"tunnel that cannot be read", rule("mode: encap", trace, "tunnel: 5"), []string{
			`8:13: encapsulations[0].tunnel is the number 5; write a mapping with the keys source, destination`}},
		{"misspelt tunnel", rule("mode: encap", trace, "tunel: {source: 2001:db8::1, destination: 2001:db8::2}"), []string{
			`8:5: unknown key "tunel" in encapsulations[0]; did you mean "tunnel"?`}},
		{"shortened key", "interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123}]\nencapsulations:\n  - {name: a, iface: eth0, " + inline + ", " + trace + "}", []string{
			`4:15: unknown key "iface" in encapsulations[0]; did you mean "interface"?`}},
		{"shortened keys inside", rule(inline, "options: [{trace: {namespace: 123, trace-type: 0xc00000, size: 8}}]", "match: {dst: 2001:db8::/32}"), []string{
			`7:40: unknown key "trace-type" in encapsulations[0].options[0].trace; did you mean "type"?`,
			`8:13: unknown key "dst" in encapsulations[0].match; did you mean "destination"?`}},
		{"key far from any", rule(inline, trace, "colour: red"), []string{
			`8:5: unknown key "colour" in encapsulations[0]; use the keys name, interface, match, flows, frequency, budget, mode, tunnel, nested, options`}},
		{"misspelt key that must be there", "interfaces: [{nome: eth0}]", []string{
			`1:15: unknown key "nome" in interfaces[0]; did you mean "name"?`}},
		{"namespace 0 next to one that cannot be read", "namespaces: [{id: x}, {id: 0}]", []string{
			`1:19: namespaces[0].id: "x" is not a number; write a number from 0 to 65535`}},
		{"standard output next to a misspelt path", "export: [{kind: jsonl, pat: /x}, {kind: jsonl}]", []string{
			`1:24: unknown key "pat" in export[0]; did you mean "path"?`}},
		{"one rule's mode and another's tunnel", rule("mode: tunnel", trace, tunnel) + "  - {name: b, interface: eth0, mode: inline, " + tunnel + ", " + trace + "}", []string{
			`6:11: encapsulations[0].mode: "tunnel" is not a valid value; write one of inline, encap, auto`,
			`9:63: encapsulations[1].tunnel.source: mode inline has no tunnel; remove it, or use mode encap or auto`,
			`9:89: encapsulations[1].tunnel.destination: mode inline has no tunnel; remove it, or use mode encap or auto`}},
	})
}

// Errors in the other values.
func TestFaultsOfValues(t *testing.T) {
	checkFaults(t, []faultCase{
		{"overlapping ids", "interfaces:\n  - {name: a, id: 7}\n  - {name: b, id: 7}\n  - {name: c, id-wide: 8}\n  - {name: d, id-wide: 8}", []string{
			`3:19: interfaces[1].id: 7 is also the id of interfaces[0]; give each interface its own id`,
			`5:24: interfaces[3].id-wide: 8 is also the wide id of interfaces[2]; give each interface its own id`}},
		{"namespace twice", "namespaces: [{id: 1}, {id: 1}]", []string{`1:28: namespaces[1].id: 1 is also the id of namespaces[0]; configure each namespace once`}},
		{"interface twice", "interfaces: [{name: a}, {name: a}]", []string{`1:32: interfaces[1].name: "a" is also the name of interfaces[0]; list each interface once`}},
		{"numbers", "node: {id: 16777216, id-wide: x}\nnamespaces: [{id: -1}, {id: 010}, {id: 1.5}, {id: }]", []string{
			`1:12: node.id: 16777216 is too large; write a number from 0 to 16777215`,
			`1:31: node.id-wide: "x" is not a number; write a number from 0 to 72057594037927935`,
			`2:19: namespaces[0].id: "-1" is not a number; write a number from 0 to 65535`,
			`2:29: namespaces[1].id: 010 is not a decimal or 0x number; write a number from 0 to 65535`,
			`2:40: namespaces[2].id: "1.5" is not a number; write a number from 0 to 65535`,
			`2:50: namespaces[3].id is empty; write a number from 0 to 65535`}},
		{"roles", "interfaces: [{name: a, role: egress}, {name: b, role: [ingress, ingress]}, {name: c, role: [none]}]", []string{
			`1:30: interfaces[0].role is the text "egress"; write a list: [egress]`,
			`1:65: interfaces[1].role lists ingress twice; remove one`,
			`1:93: interfaces[2].role[0]: "none" is not a valid value; write one of ingress, egress`}},
		{"words that are not known", "interfaces: [{name: a, forwarding: quick}]\nnode: {next-hops: 0}\nexport: [{kind: kafka}]", []string{
			`1:36: interfaces[0].forwarding: "quick" is not a valid value; write one of stack, fast`,
			`2:19: node.next-hops: 0 is not possible; write a number from 1 to 1048576`,
			`3:17: export[0].kind: "kafka" is not a valid value; write one of jsonl, ipfix, otlp`}},
		{"names", "interfaces: [{name: ../all}, {name: much-too-long-name}, {name: a b}]\nencapsulations: [{name: \"a\\nb\", interface: x, mode: inline, options: []}]", []string{
			`1:21: interfaces[0].name: "../all" cannot be the name of an interface; write 1 to 15 characters without spaces, / and :`,
			`1:37: interfaces[1].name: "much-too-long-name" cannot be the name of an interface; write 1 to 15 characters without spaces, / and :`,
			`1:65: interfaces[2].name: "a b" cannot be the name of an interface; write 1 to 15 characters without spaces, / and :`,
			`2:25: encapsulations[0].name: "a\nb" has control characters; remove them: the name appears in status and metrics`,
			`2:44: encapsulations[0].interface: "x" is not an interface that this node serves; add it to interfaces, with the role egress`,
			`2:70: encapsulations[0].options: 0 options; give 1…9`}},
		{"two exports to one file", "export: [{kind: jsonl}, {kind: jsonl, path: \"-\"}]", []string{
			`1:45: export[1].path: export[0] also writes to "-"; remove one, or give it another path`}},
		{"profile", "node: {timestamp-format: ptp, compatibility: mainline}", []string{
			`1:26: node.timestamp-format: Linux writes only posix, so ptp is not possible with compatibility mainline; use posix, or compatibility: default`}},
		{"the kernel's events", "node: {timestamp-format: ntp, kernel-events: true}", []string{
			`1:26: node.timestamp-format: the kernel's IOAM writes only posix, so ntp is not possible with kernel-events; use posix, or kernel-events: false`}},
	})
}
