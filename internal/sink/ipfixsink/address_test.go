// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import "testing"

func TestCollectorAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"udp://[2001:db8::9]:4739": "udp://[2001:db8::9]:4739",
		"udp://[2001:DB8:0::9]":    "udp://[2001:db8::9]:4739",
		"tcp://192.0.2.9":          "tcp://192.0.2.9:4739",
		"tls://192.0.2.9:1":        "tls://192.0.2.9:1",
		"tls://a-b.example.":       "tls://a-b.example.:4740",
		"udp://[2001:db8::4739]":   "udp://[2001:db8::4739]:4739",
		"udp://[fe80::1%eth0]":     "udp://[fe80::1%eth0]:4739",
	} {
		if a, err := parseCollector(text); err != nil || a.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, a, err, want)
		}
	}
	for _, bad := range []string{"", "udp", "udp://", "sctp://[::1]:4739", "[::1]:4739", "udp://[::1", "udp://[::1]:0", "udp://[::1]:65536",
		"udp://[::]:4739", "udp://0.0.0.0", "udp://a b", "tls://-x.example", "tls://a..b", "udp://[::1]:4739/path",
		"udp://2001:db8:ff::9:4739", "udp://fe80::1%eth0:4739", "udp://::1:4739", "tcp://1:2:3:4:5:6:7:8:4739", "udp://2001:db8::9:",
		"udp://::4739", "udp://2001:db8::9", "udp://fe80::1%eth0", "udp://1:2:3:4:5:6:7:8", "udp://2001:db8::9:beef"} {
		if a, err := parseCollector(bad); err == nil {
			t.Errorf("%q is read as %s", bad, a)
		}
	}
}
