// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

const askingFile = `node: {id: 1, loopback-limit: 1/200, loopback-rate: 50}
interfaces: [{name: eth0, role: [ingress, egress]}]
namespaces: [{id: 7, loopback: true, terminate-active: true}, {id: 8}]
encapsulations: [{name: a, interface: eth0, mode: inline, options: [{trace: {namespace: 8, type: 0x800000, size: 16, loopback: 1/100}}]}]
`

func TestLoopback(t *testing.T) {
	c := mustParse(t, askingFile)
	node := c.Anywhere()
	ns, trace := node.Namespaces[0], node.Encapsulations[0].Options[0].Trace
	if node.LoopbackLimit != 200 || node.LoopbackRate != 50 || !ns.Loopback || !ns.TerminateActive || node.Namespaces[1].Loopback ||
		trace.Loopback != 100 {
		t.Errorf("%+v, %+v", node, trace)
	}
	if !node.AsksLoopback(8) || node.AsksLoopback(7) {
		t.Error("it asks for copies in another namespace")
	}
	text := string(c.Marshal())
	if again := mustParse(t, text); !same(c, again) {
		t.Errorf("%s\nreads as another configuration", text)
	}
	if off := mustParse(t, "node: {id: 1}").Anywhere(); off.LoopbackLimit != 100 || off.LoopbackRate != 100 {
		t.Errorf("defaults: %d, %d", off.LoopbackLimit, off.LoopbackRate)
	}
}

func TestFaultsOfLoopback(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(askingFile, from, to, 1) }
	checkFaults(t, []faultCase{
		{"another type", change("type: 0x800000", "type: 0xc00000"), []string{
			`4:128: encapsulations[0].options[0].trace.loopback: nodes return no copies of packets with another trace type than 0x800000; use type 0x800000, or remove loopback`}},
		{"an unknown namespace", change("{namespace: 8,", "{namespace: 9,"), []string{
			`4:128: encapsulations[0].options[0].trace.loopback: namespace 9 is not configured, so the copies could not be recognised; add 9 to namespaces, or remove loopback`}},
		{"two", change("loopback: 1/100}}", "loopback: 1/100}}, {trace: {namespace: 8, type: 0x800000, size: 16, loopback: 1/9}}"), []string{
			`4:196: encapsulations[0].options[1].trace.loopback: several traces of the header have it; remove it from the others`}},
		{"no rate", change("loopback-rate: 50", "loopback-rate: 0"), []string{
			`1:53: node.loopback-rate: 0 is not possible; write a number from 1 to 1000000`}},
	})
}
