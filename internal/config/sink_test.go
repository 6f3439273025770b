// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
)

func TestIPFIXExport(t *testing.T) {
	c, err := Parse("F", []byte(`export:
  - {kind: ipfix, address: "udp://[2001:db8::9]"}
  - kind: ipfix
    address: tls://collector.example.net
    source: 192.0.2.1
    observation-domain: 77
    enterprise: 64512
    message-size: 1400
    refresh: 10m
    tls: {certificate: /a, key: /b, ca: /c, server-name: d}
  - {kind: jsonl}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []ipfixsink.Config{
		{Transport: ipfixsink.UDP, Address: "[2001:db8::9]:4739", Domain: 5, MessageSize: 8952, Refresh: time.Minute},
		{Transport: ipfixsink.TLS, Address: "collector.example.net:4740", Source: netip.MustParseAddr("192.0.2.1"), Domain: 77, MessageSize: 1400,
			Refresh: 10 * time.Minute, Files: ipfixsink.TLSFiles{Certificate: "/a", Key: "/b", CA: "/c", ServerName: "d"}},
	}
	for i, w := range want {
		if got := c.Sinks[i].IPFIX.Config(5); got != w {
			t.Errorf("got  %+v\nwant %+v", got, w)
		}
	}
	if a, b := c.Sinks[0].IPFIX.EnterpriseNumber(), c.Sinks[1].IPFIX.EnterpriseNumber(); a != 32473 || b != 64512 {
		t.Errorf("enterprise numbers %d and %d", a, b)
	}
	shown := string(c.Marshal())
	again, err := Parse("F", []byte(shown))
	if err != nil || !reflect.DeepEqual(again.Sinks, c.Sinks) {
		t.Errorf("%v\n%s", err, shown)
	}
	if part := "export:\n  - kind: ipfix\n    address: \"udp://[2001:db8::9]:4739\"\n"; !strings.Contains(shown, part) {
		t.Errorf("no %q in\n%s", part, shown)
	}
	if got := c.Sinks[2].JSONL.Path; got != "-" {
		t.Errorf("jsonl without a path writes to %q", got)
	}
}

func TestFaultsOfExport(t *testing.T) {
	checkFaults(t, []faultCase{
		{"keys of the other kind", "export:\n  - {kind: jsonl, address: \"udp://[::1]\", refresh: 10s}\n  - {kind: ipfix, address: \"udp://[::1]\", path: /x}", []string{
			`2:28: export[0].address: jsonl does not have this key; remove it, or set kind: ipfix`,
			`2:52: export[0].refresh: jsonl does not have this key; remove it, or set kind: ipfix`,
			`3:49: export[1].path: ipfix does not have this key; remove it, or set kind: jsonl`}},
		{"kinds of records", "export:\n  - {kind: jsonl, records: [loss, path]}\n  - {kind: jsonl, path: /x, records: []}\n  - {kind: jsonl, path: /y, records: [loss, loss]}", []string{
			`2:35: export[0].records[1]: "path" is not a valid value; write one of trace, postcard, flow, loss, delay, block, edge-flow, event`,
			`3:38: export[1].records: no record is of no kind; list kinds, or remove it for all`,
			`4:45: export[2].records lists loss twice; remove one`}},
		{"no collector", "export: [{kind: ipfix}]", []string{
			`1:10: export[0].address: ipfix needs a collector; add it: an address such as "udp://[2001:db8::9]:4739", "tcp://…" or "tls://…"`}},
		{"an address that cannot be read", "export: [{kind: ipfix, address: \"http://x\"}]", []string{
			`1:33: export[0].address: "http://x" begins with a transport that is neither udp, tcp nor tls; write an address such as "udp://[2001:db8::9]:4739", "tcp://…" or "tls://…"`}},
		{"an address without a transport", "export: [{kind: ipfix, address: \"[2001:db8::9]:4739\"}]", []string{
			`1:33: export[0].address: "[2001:db8::9]:4739" does not begin with a transport, udp://, tcp:// or tls://; write an address such as "udp://[2001:db8::9]:4739", "tcp://…" or "tls://…"`}},
		{"an address that lacks brackets", "export: [{kind: ipfix, address: \"udp://2001:db8:ff::9:4739\"}]", []string{
			`1:33: export[0].address: "2001:db8:ff::9:4739" may be an address, or the address 2001:db8:ff::9 and a port; write udp://[2001:db8:ff::9]:4739, or udp://[2001:db8:ff::9:4739] if all of it is the address`}},
		{"a port that follows two colons", "export: [{kind: ipfix, address: \"udp://::4739\"}]", []string{
			`1:33: export[0].address: "::4739" may be an address, or the address :: and a port; write udp://[::]:4739, or udp://[::4739] if all of it is the address`}},
		{"a whole address that lacks brackets", "export: [{kind: ipfix, address: \"tls://2001:db8:0:0:0:0:0:9:4740\"}]", []string{
			`1:33: export[0].address: the IPv6 address before the port of "2001:db8:0:0:0:0:0:9:4740" has no brackets; write tls://[2001:db8:0:0:0:0:0:9]:4740`}},
		{"periods", "node: {export-interval: 25h}\nexport: [{kind: ipfix, address: \"udp://[::1]\", refresh: 1.5s}, {kind: ipfix, address: \"udp://[::2]\", refresh: \"10\"}]", []string{
			`1:25: node.export-interval: 25h is more than 24h; write whole seconds, minutes or hours up to 24h, such as 30s or 10m`,
			`2:57: export[0].refresh: 1.5s is not whole seconds; write whole seconds, minutes or hours up to 24h, such as 30s or 10m`,
			`2:111: export[1].refresh: "10" is not a time with a unit; write whole seconds, minutes or hours up to 24h, such as 30s or 10m`}},
		{"one collector twice", "export: [{kind: ipfix, address: \"udp://[::1]\"}, {kind: ipfix, address: \"udp://[::1]:4739\"}]", []string{
			`1:72: export[1].address: export[0] also writes to udp://[::1]:4739; remove one, or give it another address`}},
		{"two families", "export: [{kind: ipfix, address: \"udp://[::1]\", source: 192.0.2.1}]", []string{
			`1:56: export[0].source: 192.0.2.1 cannot send to ::1; use an address of the same family, or remove source`}},
		{"TLS that cannot be", "export:\n  - {kind: ipfix, address: \"tcp://[::1]\", tls: {ca: /c}}\n  - {kind: ipfix, address: \"tls://[::1]\", tls: {key: /b}}", []string{
			`2:48: export[0].tls: there is no TLS over tcp; remove it, or write tls:// in address`,
			`3:48: export[1].tls: a certificate needs its key, and a key its certificate; give both, or neither`}},
		{"numbers", "export: [{kind: ipfix, address: \"udp://[::1]\", enterprise: 10383, message-size: 100, refresh: 1ms, observation-domain: -1}]", []string{
			`1:60: export[0].enterprise: 10383 already defines elements; write a private enterprise number other than 0 and 10383`,
			`1:81: export[0].message-size: 100 is too small; write a number from 508 to 65535`,
			`1:95: export[0].refresh: 1ms is less than 1s; write whole seconds, minutes or hours up to 24h, such as 30s or 10m`,
			`1:120: export[0].observation-domain: "-1" is not a number; write a number from 0 to 4294967295`}},
	})
}

// Defaults that the file omits are shown; a file with them means the same.
func TestExportDefaultsAreShown(t *testing.T) {
	const exporters = "export:\n  - kind: ipfix\n    address: \"udp://[::1]:4739\"\n%[1]s    enterprise: 32473\n    message-size: 8952\n" +
		"    refresh: 1m\n" +
		"  - kind: ipfix\n    address: \"tcp://[::1]:4739\"\n%[1]s    enterprise: 32473\n    message-size: 16384\n    refresh: 1m\n" +
		"  - kind: jsonl\n    path: \"-\"\n"
	const file = "export: [{kind: ipfix, address: \"udp://[::1]\"}, {kind: ipfix, address: \"tcp://[::1]\"}, {kind: jsonl}]\n"
	for node, domain := range map[string]string{"": "", "node: {id: 7}\n": "    observation-domain: 7\n"} {
		c, err := Parse("F", []byte(node+file))
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(exporters, domain)
		if shown := string(c.Marshal()); !strings.Contains(shown, want) {
			t.Errorf("no\n%s\nin\n%s", want, shown)
		}
		if again, err := Parse("F", c.Marshal()); err != nil || !reflect.DeepEqual(again.Sinks, c.Sinks) {
			t.Errorf("the shown file says something else: %v", err)
		}
	}
}

// The keys of a sink to OpenTelemetry: what is refused, and what is written as it was read.
func TestOTLP(t *testing.T) {
	for keys, want := range map[string]string{
		"endpoint: \"http://[2001:db8::1]:4318\", slower-than: 5ms, one-in: 1000, metrics-interval: 10s": "",
		"endpoint: https://otel.example.net/tenant":                                                      "",
		"endpoint: \"http://host\", compression: gzip":                                                   "",
		"endpoint: \"http://host\", compression: zstd":                                                   "write one of none, gzip",
		"one-in: 5":                  "otlp needs an endpoint",
		"endpoint: otel.example.net": "is not a URL of OTLP/HTTP",
		"endpoint: \"grpc://otel.example.net:4317\"": "is not a URL of OTLP/HTTP",
		"endpoint: \"http://me:secret@host\"":        "has more than a host, a port and a path",
		"endpoint: \"http://host:0\"":                "is no port",
		"endpoint: \"http://host\", slower-than: 1h": "slower-than",
		"endpoint: \"http://host\", one-in: 0":       "one-in",
		"endpoint: \"http://host\", path: x":         "otlp does not have this key",
	} {
		c, err := Parse("F", []byte("node: {id: 1}\nexport: [{kind: otlp, "+keys+"}]\n"))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", keys, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		if again, err := Parse("F", c.Marshal()); err != nil || !again.Equal(c) {
			t.Errorf("%s: %v: %s", keys, err, c.Marshal())
		}
		if r := c.Sinks[0].Remote(); r == nil || r.Port != 4318 || r.Protocol != ioam.NextHeaderTCP {
			t.Errorf("%s: %+v", keys, r)
		}
	}
}
