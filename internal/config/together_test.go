// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

// One file with a fault of every kind that an operator makes is told of all of
// them in one go, each with its place and a cure.
func TestFaultsTogether(t *testing.T) {
	checkFaults(t, []faultCase{{"everything", `colour: red
interfaces:
  - {name: eth0, id: 7, role: [egress]}
  - {name: eth1, id: 7}
namespaces: [{id: 123}]
encapsulations:
  - name: core
    interface: eth0
    mode: inline
    frequency: 0/0
    options:
      - trace: {namespace: 123, type: 0xf00000, size: 62}
      - trace: {namespace: 123, type: 0x800800, size: 4}
  - name: core
    interface: eth0
    tunnel: {source: 2001:db8::1}
    options: [{trace: {namespace: 123, type: 0xf00000, size: 64}}]
decapsulations:
  - tunnel-destination: 192.0.2.1
`, []string{
		`1:1: unknown key "colour" in the file; use the keys node, interfaces, namespaces, encapsulations, decapsulations, tunnel-destinations, export, collectors, metrics, strict`,
		`4:22: interfaces[1].id: 7 is the id of interfaces[0] too; give each interface its own id`,
		`10:16: encapsulations[0].frequency: 0/0 is not possible; write K/N with 1 ≤ K ≤ N ≤ 1000000, such as 1/100`,
		`12:55: encapsulations[0].options[0].trace.size: 62 bytes are not possible; use a multiple of 4 in 4…244`,
		`13:39: encapsulations[0].options[1].trace.type: trace type not usable: 0x800800 has undefined bits (12–21, mask 0x000ffc); use bits of 0xfff002`,
		`14:11: encapsulations[1].name: "core" is the name of encapsulations[0] too; give each encapsulation its own name`,
		`16:13: key "destination" is missing in encapsulations[1].tunnel; add it: an IPv6 address such as 2001:db8::1`,
		`19:25: decapsulations[0].tunnel-destination: 192.0.2.1 is an IPv4 address; write an IPv6 address such as 2001:db8::1`,
	}}})
}
