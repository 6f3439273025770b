// SPDX-License-Identifier: Apache-2.0

package kernel

import "fmt"

// twoHosts is a topology of two hosts, with athos between them, which inserts, and porthos,
// which has these interfaces and namespaces.
func twoHosts(name, ofAthos, encapsulations, interfaces, ofPorthos string) string {
	return fmt.Sprintf(`
name: %[1]s
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: athos
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      node: {id: 7}
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress]}]
      namespaces: [%[2]s]
      encapsulations:%[3]s
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}]
    agent:
      node: {id: 8}
      interfaces: [%[4]s]
      namespaces: [%[5]s]
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:4::1}]}
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 2000, ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 2000, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:4::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:4::2/64}]}
`, name, ofAthos, encapsulations, interfaces, ofPorthos)
}

// removing is twoHosts whose porthos removes the options of namespace 123, and not those of 456.
func removing(name, encapsulations string) string {
	return twoHosts(
		name,
		"{id: 123}, {id: 456}",
		encapsulations,
		"{name: eth0, role: [ingress, egress]}, {name: eth1, role: [ingress, egress]}",
		"{id: 123, remove: true, e2e: true}, {id: 456}",
	)
}
