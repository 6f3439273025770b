// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

const measuring = served + `
measurement:
  block: 500ms
  guard: 50ms
  carrier: argument
  octet: 14
  mask: 0xf0
  unmarked: 0x00
  even: 0x10
  odd: 0x20
  delay-even: 0x30
  delay-odd: 0x40
  mean-delay: true
  clock-error: 5ms
  ecn: true
  unmonitored: clear
  capacity: 100000
stamp: {listen: "[::]:862", allow: ["2001:db8::/32"], rate: 50000, key-file: /etc/waymark/stamp.key}
flows:
  - {name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e", "fc00:3::d6"], points: ["2001:db8::7", "[2001:db8::8]:8620"]}
  - name: blue
    direction: transit
    source: 2001:db8::2
    segments: ["fcbb:bb00:1:2:3::"]
    mode: encap.red
    psp: true
    container: 32/16
    destination: fcbb:bb00:2:3::1
    traffic-class: 184
    flow-label: 7
  - {name: green, direction: in, source: 2001:db8::3, segments: ["fc00:2::e"], mode: inline}
`

// TestMeasurement reads every key, and writes it as it was read.
func TestMeasurement(t *testing.T) {
	c := mustParse(t, measuring)
	class, label := uint8(184), uint32(7)
	address, clockError := netip.MustParseAddr, 5*time.Millisecond
	want := model.Measurement{
		Block: 500 * time.Millisecond, Guard: 50 * time.Millisecond, Clear: true, MeanDelay: true, ClockError: &clockError, Capacity: 100000,
		Marking: model.Marking{Carrier: model.CarrierArgument, Octet: 14, Mask: 0xf0, Colours: [2]uint8{0x10, 0x20}, Delay: &[2]uint8{0x30, 0x40}, ECN: true},
		Flows: []model.MeasuredFlow{
			{Name: "red", Source: address("2001:db8::1"), Path: srv6.Path{Segments: []netip.Addr{address("fc00:2::e"), address("fc00:3::d6")}}, Points: []netip.AddrPort{netip.AddrPortFrom(address("2001:db8::7"), 862), netip.AddrPortFrom(address("2001:db8::8"), 8620)}},
			{
				Name: "blue", Direction: model.DirectionTransit, Source: address("2001:db8::2"), Destination: address("fcbb:bb00:2:3::1"), TrafficClass: &class, FlowLabel: &label,
				Path: srv6.Path{Segments: []netip.Addr{address("fcbb:bb00:1:2:3::")}, Mode: srv6.ModeReduced, Popped: true, Compression: srv6.Compression{Block: 32, SID: 16}},
			},
			{Name: "green", Direction: model.DirectionIn, Source: address("2001:db8::3"), Path: srv6.Path{Segments: []netip.Addr{address("fc00:2::e")}, Mode: srv6.ModeInline}},
		},
	}
	if got := c.Anywhere().Measurement; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if again := mustParse(t, string(c.Marshal())); !same(c, again) {
		t.Errorf("written otherwise than read:\n%s", again.Marshal())
	}
	defaults := mustParse(t, strings.Split(measuring, "measurement:")[0]+`flows: [{name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e"]}]`)
	if m := defaults.Anywhere().Measurement.WithDefaults(); m.Block != 10*time.Second || m.Guard != 100*time.Millisecond || m.Marking != model.DefaultMarking() || m.Capacity != 65536 {
		t.Errorf("defaults: %+v", m)
	}
}

// TestMeasurementFaults breaks one key at a time.
func TestMeasurementFaults(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"block: 500ms", "block: 90ms", "measurement.block: 90ms is no length of a block; use 100ms to 10m"},
		{"block: 500ms", "block: 11m", "11m is not from 1ms to 10m0s"},
		{"block: 500ms", "block: 100.5ms", "is not whole milliseconds"},
		{"guard: 50ms", "guard: 250ms", "measurement.guard: a guard of 250ms in blocks of 500ms leaves no time"},
		{"octet: 14", "octet: 16", "measurement.octet: 16 is too large"},
		{"mask: 0xf0", "mask: 0xb0", "is not within the mask 0xb0"},
		{"mask: 0xf0", "mask: 0x00", "no bit carries the mark"},
		{"odd: 0x20", "odd: 0x10", "measurement.odd: 0x10 has two meanings"},
		{"  delay-odd: 0x40\n", "", "delay marks need a value for even and for odd blocks"},
		{`allow: ["2001:db8::/32"]`, "allow: []", "list 1 to 64 prefixes"},
		{"capacity: 100000", "capacity: 2", "there are 3 flows, and room for 2; set capacity: 3"},
		{"name: blue", "name: red", `flows[1].name: "red" is also the name of flows[0]`},
		{"direction: in", "direction: out", ""},
		{"direction: out", "direction: in", "flows[0].points: only the ingress of a path asks the others"},
		{`"2001:db8::7"`, `"192.0.2.1"`, "flows[0].points[0]"},
		{"source: 2001:db8::3", "source: fe80::3", "fe80::3 is no source of forwarded packets"},
		{`segments: ["fc00:2::e"], mode`, "segments: [], mode", "0 segments; list 1 to 16 SIDs"},
		{`segments: ["fc00:2::e"], mode`, `segments: ["ff02::1"], mode`, "ff02::1 is no SID"},
		{"mode: inline", "mode: inline, psp: true", "a packet whose inline SRH was removed"},
		{"container: 32/16", "container: 32/7", "are no container"},
		{"container: 32/16", "container: 32/x", "is not BLOCK/SID in bits"},
		{"flow-label: 7", "flow-label: 1048576", "is too large"},
	} {
		text := strings.Replace(measuring, tt.from, tt.to, 1)
		if text == measuring {
			t.Fatalf("%q is not in the file", tt.from)
		}
		_, err := Parse("F", []byte(text))
		if got := ""; err != nil {
			got = err.Error()
			if tt.want == "" || !strings.Contains(got, tt.want) {
				t.Errorf("%s: %s\nwant %s", tt.to, got, tt.want)
			}
		} else if tt.want != "" {
			t.Errorf("%s is accepted", tt.to)
		}
	}
	class := strings.Replace(strings.Replace(measuring, "carrier: argument", "carrier: traffic-class", 1), "ecn: true", "ecn: false", 1)
	class = strings.Replace(strings.Replace(class, "mask: 0xf0", "mask: 0xf1", 1), "octet: 14\n", "octet: 15\n", 1)
	if _, err := Parse("F", []byte(class)); err == nil || !strings.Contains(err.Error(), "0xf1 has bits of the ECN field") {
		t.Errorf("bits of the ECN field: %v", err)
	}
}
