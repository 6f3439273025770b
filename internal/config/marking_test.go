// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

// TestArgument breaks what marks in a SID need, which must go where unmarked packets go.
func TestArgument(t *testing.T) {
	const text = served + "measurement: {carrier: argument, octet: 14}\n" +
		"flows: [{name: red, direction: out, source: 2001:db8::1, segments: [\"fc00:2::e\"]}]\n"
	if m := mustParse(t, text).Anywhere().Measurement; m.Marking.Carrier != model.CarrierArgument || m.Marking.Octet != 14 {
		t.Errorf("%+v", m.Marking)
	}
	for _, tt := range []struct{ from, to, want string }{
		{"octet: 14", "octet: 14, unmonitored: clear", "measurement.unmonitored: the last address of a packet of no flow"},
		{"direction: out", "direction: out, mode: inline", "flows[0].mode: the last address of an inline packet is its receiver's"},
		{"direction: out", "direction: in, container: 32/16", "flows[0].container: nodes of the path move the mark"},
	} {
		changed := strings.Replace(text, tt.from, tt.to, 1)
		if _, err := Parse("F", []byte(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.to, err, tt.want)
		}
		if _, err := Parse("F", []byte(strings.Replace(changed, "argument, octet: 14", "traffic-class", 1))); err != nil {
			t.Errorf("%s, without the argument: %v", tt.to, err)
		}
	}
}

const byOption = `
node: {id: 1}
interfaces: [{name: eth0, boundary: ignore}]
measurement: {carrier: option, header: hop-by-hop}
flows:
  - {name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e"], flow-mon-id: 0x12345}
  - {name: blue, direction: in, source: 2001:db8::1, segments: ["fc00:2::e"], flow-mon-id: 0x12345}
  - {name: green, direction: out, source: 2001:db8::1, segments: ["fc00:2::e"], flow-label: 7}
`

// TestOption reads what the AltMark option needs, and breaks one key at a time.
func TestOption(t *testing.T) {
	c := mustParse(t, byOption)
	m := c.Anywhere().Measurement
	if want := model.OptionMarking(true); !reflect.DeepEqual(m.Marking, want) {
		t.Errorf("%+v, want %+v", m.Marking, want)
	}
	red, blue, green := m.Flows[0], m.Flows[1], m.Flows[2]
	if red.FlowMonID() != 0x12345 || red.SelectedByFlowMonID() || !blue.SelectedByFlowMonID() || green.FlowMonID() != 0x788b2 {
		t.Errorf("%+v, green %#x", m.Flows, green.FlowMonID())
	}
	if again := mustParse(t, string(c.Marshal())); !same(c, again) {
		t.Errorf("written otherwise than read:\n%s", again.Marshal())
	}
	for _, tt := range []struct{ from, to, want string }{
		{"header: hop-by-hop", "header: routing", `measurement.header`},
		{"carrier: option", "carrier: option, mask: 0x1c", "measurement.carrier: the option has bits of its own for the mark; remove mask"},
		{"carrier: option", "carrier: option, delay-even: 4, delay-odd: 8", "the option has bits of its own"},
		{"carrier: option", "carrier: option, unmonitored: clear", "measurement.unmonitored: packets of no flow keep an option"},
		{"{carrier: option, header: hop-by-hop}", "{block: 1s}", "flows[0].flow-mon-id: packets carry it in the option alone; remove it, or set measurement: {carrier: option}"},
		{"0x12345}", "0x100000}", "flow-mon-id"},
		{"flow-label: 7", "flow-label: 7, flow-mon-id: 0x12345", `flows[2].flow-mon-id: the flow has the FlowMonID 0x12345 of flow "red", which has the same source; set flow-mon-id: 0x12346 at all nodes of the path`},
		{"flow-label: 7", "mode: inline", "flows[2].mode: nothing would remove the option's header from an inline packet"},
	} {
		text := strings.Replace(byOption, tt.from, tt.to, 1)
		if text == byOption {
			t.Fatalf("%q is not in the file", tt.from)
		}
		if _, err := Parse("F", []byte(text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.to, err, tt.want)
		}
	}
}
