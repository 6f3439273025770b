// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

const measuring = served + `
measurement:
  block: 500ms
  guard: 50ms
  carrier: traffic-class
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
  probe-interval: 20ms
  probe-source: 2001:db8::9
  capacity: 100000
  max-loss: 0.1%
  max-delay: 20ms
  no-data-after: 5
stamp: {listen: "[::]:862", allow: ["2001:db8::/32"], rate: 50000, key-file: /etc/waymark/stamp.key, return-segments: true}
responders:
  - {protocol: twamp-light, listen: "[::]:1205", allow: ["2001:db8::/32"], rate: 100}
  - {protocol: rfc6374-loss, listen: "[2001:db8::9]:6374", allow: ["2001:db8::/32"]}
path-trace: {allow: ["2001:db8:0::/48"], rate: 10}
flows:
  - {name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e", "fc00:3::d6"], points: ["2001:db8::7", "egress=[2001:db8::8]:8620"], session: 1206, probes: in-band, points-after: [1], return-segments: ["fc00:2::e"], max-loss: 0%, max-delay: 1500us}
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
	none, delay := loss.Share(0), 1500*time.Microsecond
	want := model.Measurement{
		Block: 500 * time.Millisecond, Guard: 50 * time.Millisecond, Clear: true, MeanDelay: true, ClockError: &clockError, Capacity: 100000,
		ProbeEvery: 20 * time.Millisecond, SelectionPort: 862, ProbeFrom: address("2001:db8::9"),
		Marking: model.Marking{Carrier: model.CarrierClass, Octet: 14, Mask: 0xf0, Colours: [2]uint8{0x10, 0x20}, Delay: &[2]uint8{0x30, 0x40},
			ECN: true},
		Flows: []model.MeasuredFlow{
			{Name: "red", Source: address("2001:db8::1"), Path: srv6.Path{Segments: []netip.Addr{address("fc00:2::e"), address("fc00:3::d6")}}, Points: []netip.AddrPort{netip.AddrPortFrom(address("2001:db8::7"), 862), netip.AddrPortFrom(address("2001:db8::8"), 8620)}, PointNames: []string{"", "egress"}, Thresholds: loss.Thresholds{MaxLoss: &none, MaxDelay: &delay, NoDataAfter: 5},
				Session: 1206, Probes: model.ProbesInBand, After: []int{1}, Return: []netip.Addr{address("fc00:2::e")}},
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
	defaults := mustParse(t, strings.Split(measuring, "measurement:")[0]+
		`flows: [{name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e"]}]`)
	if m := defaults.Anywhere().Measurement.WithDefaults(); m.Block != 10*time.Second || m.Guard != 100*time.Millisecond ||
		m.Marking != model.DefaultMarking() || m.Capacity != 65536 {
		t.Errorf("defaults: %+v", m)
	}
}

// Exchanges without names need sessions, for the flows that are compared.
func TestExchanges(t *testing.T) {
	for _, tt := range []struct{ exchange, flow, want string }{
		{"rfc6374", "session: 7", ""},
		{"twamp-light", "session: 7", ""},
		{"rfc6374", "session: 0", "flows[0].session: messages of exchange: rfc6374 carry no name of a flow; give the flow a number here and at its points"},
		{"stamp", "session: 0", ""},
		{"stamp", "probes: out-of-band", ""},
		{"rfc6374", "session: 7, probes: in-band", ""},
		{"rfc6374", "session: 7, probes: out-of-band", "flows[0].probes: test packets are STAMP's, and the points are asked by rfc6374; give the port of Delay Measurement as measurement.delay-port"},
		{"rfc6374, delay-port: 6375", "session: 7, probes: out-of-band", ""},
		{"rfc6374, delay-port: 862", "session: 7, probes: out-of-band", ""},
		{"rfc6374, delay-port: 6374", "session: 7, probes: out-of-band", "measurement.delay-port: the last of flows[0].points answers Loss Measurement there"},
		{"rfc6374, delay-port: 65536", "session: 7", "measurement.delay-port"},
		{"stamp, delay-port: 6375", "", "measurement.delay-port: with exchange: stamp, nothing is sent there"},
		{"twamp-light, delay-port: 6375", "session: 7, probes: out-of-band", "flows[0].probes: test packets are STAMP's, and the points are asked by twamp-light; use exchange: stamp"},
	} {
		text := served + "measurement: {clock-error: 1ms, exchange: " + tt.exchange + "}\n" +
			`flows: [{name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e"], points: ["2001:db8::7"], ` + tt.flow + "}]\n"
		_, err := Parse("F", []byte(text))
		if got := ""; err != nil {
			if got = err.Error(); tt.want == "" || !strings.Contains(got, tt.want) {
				t.Errorf("%s, %s: %s", tt.exchange, tt.flow, got)
			}
		} else if tt.want != "" {
			t.Errorf("%s, %s: accepted", tt.exchange, tt.flow)
		}
	}
}

// Without ports, loss queries of TWAMP Light go from 1206 to 1205, Loss Measurement of RFC 6374
// to 6374, and test packets of STAMP to 862. Responders listen there.
func TestDefaultPorts(t *testing.T) {
	const point, other = `, points: ["2001:db8::7", "[2001:db8::8]:7777"]`,
		`, {name: blue, direction: in, source: 2001:db8::2, segments: ["fc00:2::e"]}`
	flows := func(direction, more, others string) string {
		red := `{name: red, direction: ` + direction + `, source: 2001:db8::1, segments: ["fc00:2::e", "fc00:3::e"]` + more + "}"
		return "flows: [" + red + others + "]\n"
	}
	const light = "measurement: {clock-error: 1ms, exchange: twamp-light}\n"
	const responder = "responders: [{protocol: twamp-light, allow: [\"::/0\"]}]\n"
	const messages = "measurement: {clock-error: 1ms, exchange: rfc6374}\n"
	for _, tt := range []struct {
		name, text string
		port       uint16
		session    uint16
		listen     string
	}{
		{"STAMP", flows("out", point, ""), 862, 0, ""},
		{"TWAMP Light", light + flows("out", point, ""), 1205, 1206, ""},
		{"another session", light + flows("out", point+", session: 9", ""), 1205, 9, ""},
		{"a flow that is not asked about", light + flows("out", point+", session: 9", other), 1205, 9, ""},
		{"a responder", responder + flows("in", "", ""), 0, 1206, "[::]:1205"},
		{"a responder, two flows", responder + flows("in", "", other), 0, 0, "[::]:1205"},
		{"RFC 6374", messages + flows("out", point+", session: 9", ""), 6374, 9, ""},
		{"RFC 6374 and a port of delays", strings.Replace(messages, "rfc6374}", "rfc6374, delay-port: 6375}", 1) + flows("out", point+", session: 9, probes: out-of-band", ""), 6374, 9, ""},
		{"a responder, and a flow with a session", responder + flows("in", "", strings.Replace(other, "name: blue", "name: blue, session: 9", 1)), 0, 1206, "[::]:1205"},
		{"a responder, and a flow with this session", responder + flows("in", "", strings.Replace(other, "name: blue", "name: blue, session: 1206", 1)), 0, 0, "[::]:1205"},
		{"a responder, two flows, and one with this session", responder + flows("in", ", session: 1206", other+strings.Replace(strings.Replace(other, "blue", "green", 1), "db8::2", "db8::3", 1)), 0, 1206, "[::]:1205"},
		{"a responder of losses", "responders: [{protocol: rfc6374-loss, allow: [\"::/0\"]}]\n" + flows("in", "", other), 0, 0, "[::]:6374"},
		{"a responder of delays", "responders: [{protocol: rfc6374-delay, allow: [\"::/0\"]}]\n", 0, 0, "[::]:6375"},
		{"a responder elsewhere", strings.Replace(responder, "allow", `listen: "[::1]:5", allow`, 1) + flows("in", "", ""), 0, 1206, "[::1]:5"},
	} {
		c := mustParse(t, served+tt.text)
		f := model.MeasuredFlow{}
		if all := c.Anywhere().Measurement.Flows; len(all) > 0 {
			f = all[0]
		}
		if f.Session != tt.session {
			t.Errorf("%s: session %d", tt.name, f.Session)
		}
		if len(f.Points) > 0 && (f.Points[0] != netip.AddrPortFrom(netip.MustParseAddr("2001:db8::7"), tt.port) || f.Points[1].Port() != 7777) {
			t.Errorf("%s: %v", tt.name, f.Points)
		}
		for _, r := range c.Responders {
			if r.At().String() != tt.listen {
				t.Errorf("%s: listens at %v", tt.name, r.At())
			}
		}
		if again := mustParse(t, string(c.Marshal())); !same(c, again) {
			t.Errorf("%s: written otherwise than read:\n%s", tt.name, c.Marshal())
		}
	}
	for text, want := range map[string]string{
		light + flows("out", point, other+strings.Replace(other, "blue, direction: in", `green, direction: out, points: ["2001:db8::7"]`, 1)): "flows[0].session: messages of exchange: twamp-light carry no name",
		"responders: [{protocol: rfc6374-loss, allow: [\"::/0\"]}, {protocol: twamp-light, listen: \"[::1]:6374\", allow: [\"::/0\"]}]\n":     "responders[1].listen: responders[0] has the same port; give each its own port",
		responder + "path-trace: {allow: [\"::/0\"], listen: \"[::]:1205\"}\n":                                                                "path-trace.listen: responders[0].listen has the same port",
		strings.Replace(responder, "}]", "}, {protocol: rfc6374-loss, listen: \"[::1]:1205\", allow: [\"::/0\"]}]", 1):                        "responders[0] has the same port",
	} {
		if _, err := Parse("F", []byte(served+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A second flow without a session does not silently end that of the first one, which is there
// by default: at run time it is refused, and in a file IndistinctFlows has both.
func TestSecondFlowWithoutSession(t *testing.T) {
	const responder = "responders: [{protocol: twamp-light, allow: [\"::/0\"]}]\n"
	const red = `flows: [{name: red, direction: in, source: 2001:db8::1, segments: ["fc00:2::e"]`
	second := Flow{Name: "blue", Direction: model.DirectionIn, Source: netip.MustParseAddr("2001:db8::2"),
		Segments: []netip.Addr{netip.MustParseAddr("fc00:2::e")}}
	for _, tt := range []struct {
		name, text string
		session    SessionID // of the second flow
		refused    string
		indistinct int // flows, afterwards
	}{
		{"no responder", red + "}]", 0, "", 0},
		{"another responder", "responders: [{protocol: rfc6374-loss, allow: [\"::/0\"]}]\n" + red + "}]", 0, "", 0},
		{"no session", responder + red + "}]", 0, `flow "blue" has no session, and neither has flow "red": nothing would say which of them loss queries from port 1206 mean; add it with: session N; or give session: 1206 in the file to the flow that they mean`, 0},
		{"the same session", responder + red + "}]", 1206, `session 1206 is that of flow "red", which has no other; give the new flow another number, or the other flow its own in the file`, 0},
		{"a session", responder + red + "}]", 9, "", 0},
		{"the first has one", responder + red + ", session: 1206}]", 0, "", 0},
		{"the first has another", responder + red + ", session: 9}]", 0, "", 0},
		{"the first flow", responder, 0, "", 0},
		{"two of a file", responder + red + `}, {name: green, direction: in, source: 2001:db8::3, segments: ["fc00:2::e"]}]`, 0, "", 3},
		{"two of a file, and one with a session", responder + red + `}, {name: green, direction: in, source: 2001:db8::3, segments: ["fc00:2::e"]}]`, 9, "", 0},
	} {
		f := second
		f.Session = tt.session
		c, err := mustParse(t, served+tt.text).AddFlow(f)
		if tt.refused != "" {
			if err == nil || !strings.HasSuffix(err.Error(), tt.refused) {
				t.Errorf("%s: %v\nwant %s", tt.name, err, tt.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := c.IndistinctFlows(); len(got) != tt.indistinct {
			t.Errorf("%s: %q cannot be told apart", tt.name, got)
		}
	}
}

// The flow that queries from the default port mean is not removed while they would then mean
// another one.
func TestRemoveDefaultSession(t *testing.T) {
	const flows = `flows: [{name: red, direction: in, source: 2001:db8::1, segments: ["fc00:2::e"], session: %d}, ` +
		`{name: blue, direction: in, source: 2001:db8::2, segments: ["fc00:2::e"]%s}]`
	const responder = "responders: [{protocol: twamp-light, allow: [\"::/0\"]}]\n"
	for _, tt := range []struct {
		name, text, refused string
	}{
		{"no responder", fmt.Sprintf(flows, 1206, ""), ""},
		{"another session", responder + fmt.Sprintf(flows, 9, ""), ""},
		{"the other has one", responder + fmt.Sprintf(flows, 1206, ", session: 9"), ""},
		{"the other would get it", responder + fmt.Sprintf(flows, 1206, ""), `loss queries from port 1206, which mean flow "red", would then mean flow "blue", which has no session; give flow "blue" a session in the file, and load it with: waymark agent reload`},
	} {
		_, err := mustParse(t, served+tt.text).RemoveFlow("red")
		if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.refused)) {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.refused)
		}
	}
}

// With IPFIX, nodes are numbered instead of asked.
func TestExchangeByIPFIX(t *testing.T) {
	const export = "export: [{kind: ipfix, address: \"udp://[2001:db8::9]:4739\"}]\n"
	for _, tt := range []struct{ exchange, export, flow, want string }{
		{"ipfix", export, "direction: out, last-point: 15", ""},
		{"ipfix", export, "direction: transit, point: 1, last-point: 2", ""},
		{"ipfix", export, "direction: in, point: 2", ""},
		{"ipfix", export, "direction: in, point: 2, last-point: 2", ""},
		{"ipfix", "", "direction: in, point: 2", "measurement.exchange: nothing exports the counters; add a collector under export, with kind: ipfix"},
		{"ipfix", "export: [{kind: jsonl, path: /tmp/x}]\n", "direction: in, point: 2", "measurement.exchange: nothing exports the counters"},
		{"ipfix", export, "direction: out", "flows[0].last-point: the collector must know how many nodes count the flow"},
		{"ipfix", export, "direction: out, point: 1, last-point: 2", "flows[0].last-point: "},
		{"ipfix", export, "direction: out, last-point: 16", "is too large"},
		{"ipfix", export, "direction: transit, point: 1", "flows[0].point: 1 is not between the ingress, 0, and the egress, 0"},
		{"ipfix", export, "direction: transit, point: 2, last-point: 2", "flows[0].point: 2 is not between"},
		{"ipfix", export, "direction: in", "flows[0].point: the egress is the last point"},
		{"ipfix", export, "direction: in, point: 1, last-point: 2", "flows[0].point: the egress is the last point"},
		{"ipfix", export, `direction: out, last-point: 1, points: ["2001:db8::7"]`, "flows[0].points: with exchange: ipfix, no nodes are asked"},
		{"stamp", export, "direction: in, point: 1", "flows[0].point: with exchange: stamp, nodes are asked and not numbered"},
		{"stamp", export, "direction: out, last-point: 1", "flows[0].point: with exchange: stamp"},
	} {
		text := served + "measurement: {exchange: " + tt.exchange + "}\n" + tt.export +
			`flows: [{name: red, source: 2001:db8::1, segments: ["fc00:2::e"], ` + tt.flow + "}]\n"
		c, err := Parse("F", []byte(text))
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s, %s: %v, want %q", tt.exchange, tt.flow, err, tt.want)
		case err == nil:
			if f := c.Anywhere().Measurement.Flows[0]; f.LastPoint == 0 || f.Direction == model.DirectionIn && f.LastPoint != f.Point {
				t.Errorf("%s: %+v", tt.flow, f)
			}
		}
	}
}

// What one node sends in test packets is bounded, as are the ports of loss queries.
func TestManyFlows(t *testing.T) {
	for _, tt := range []struct {
		flows          int
		settings, more string
		want           string
	}{
		{100, "probe-interval: 10ms", "probes: out-of-band", ""},
		{101, "probe-interval: 10ms", "probes: out-of-band", "measurement.probe-interval: test packets of 101 flows every 10ms are more than 10000 a second"},
		{101, "probe-interval: 10ms", "probes: none", ""},
		{256, "clock-error: 1ms, exchange: twamp-light", "probes: none", ""},
		{257, "clock-error: 1ms, exchange: twamp-light", "probes: none", "measurement.exchange: 257 flows need a port each, at most 256"},
	} {
		var b strings.Builder
		fmt.Fprintf(&b, "%smeasurement: {%s}\nflows:\n", served, tt.settings)
		for i := range tt.flows {
			fmt.Fprintf(&b, "  - {name: f%d, direction: out, source: 2001:db8::%x, segments: [\"fc00:2::e\"], points: [\"2001:db8::7\"], "+
				"session: %d, %s}\n", i, i+16, i+1, tt.more)
		}
		_, err := Parse("F", []byte(b.String()))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d flows, %s: %v", tt.flows, tt.settings, err)
		}
	}
}

// Few flows have metrics of their own.
func TestFlowMetrics(t *testing.T) {
	for _, flows := range []int{256, 257} {
		var b strings.Builder
		fmt.Fprintf(&b, "%sflows:\n", served)
		for i := range flows {
			fmt.Fprintf(&b, "  - {name: f%d, direction: in, source: 2001:db8::%x, segments: [\"fc00:2::e\"], metrics: true}\n", i, i+16)
		}
		_, err := Parse("F", []byte(b.String()))
		const want = "flows[256].metrics: 256 other flows have metrics of their own"
		if (err == nil) != (flows == 256) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d flows: %v", flows, err)
		}
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
		{`"egress=`, `"=`, `flows[0].points[1]: "" is not a name of 1 to 64 octets`},
		{`"egress=`, `"the egress=`, `flows[0].points[1]: "the egress" is not a name`},
		{`"egress=`, `"in,out=`, `flows[0].points[1]: "in,out" is not a name`},
		{`"egress=`, `"2001:db8::7=`, `flows[0].points[1]: "2001:db8::7" is an address, and no name of a node`},
		{`"2001:db8::7", "egress=`, `"egress=2001:db8::7", "egress=`, `flows[0].points: "egress" names two points; give each node its own name`},
		{`"egress=`, `"egress==`, `flows[0].points[1]: "=[2001:db8::8]:8620" is not an address`},
		{"source: 2001:db8::3", "source: fe80::3", "fe80::3 is no source of forwarded packets"},
		{`segments: ["fc00:2::e"], mode`, "segments: [], mode", "0 segments; list 1 to 16 SIDs"},
		{`segments: ["fc00:2::e"], mode`, `segments: ["ff02::1"], mode`, "ff02::1 is no SID"},
		{"mode: inline", "mode: inline, psp: true", "a packet whose inline SRH was removed"},
		{"container: 32/16", "container: 32/7", "are no container"},
		{"container: 32/16", "container: 32/x", "is not BLOCK/SID in bits"},
		{"flow-label: 7", "flow-label: 1048576", "is too large"},
		{"flow-label: 7", "flow-label: 7\n    max-loss: 1%", "flows[1].max-loss: loss and delay of the flow are not computed here"},
		{"flow-label: 7", "flow-label: 7\n    no-data-after: 1", "flows[1].no-data-after: loss and delay"},
		{"max-loss: 0.1%", "max-loss: 0.1", "is the number 0.1; write a percentage"},
		{"max-loss: 0.1%", "max-loss: 101%", "101% is not possible"},
		{"max-loss: 0.1%", "max-loss: -1%", `"-1%" is not a percentage`},
		{"max-loss: 0.1%", "max-loss: 0.1 %", `"0.1 %" is not a percentage`},
		{"max-loss: 0.1%", "max-loss: 0.00001%", "is not a percentage with up to four digits"},
		{"max-delay: 20ms", "max-delay: 50ms", "measurement.max-delay: packets with a delay of 50ms make blocks uncertain: guard is 50ms"},
		{"max-delay: 1500us", "max-delay: 1.5us", "1.5us is not whole microseconds"},
		{"max-delay: 1500us", "max-delay: 51000us", "flows[0].max-delay: packets with a delay of 51ms"},
		{"no-data-after: 5", "no-data-after: 1001", "1001 is too large"},
		{"probe-interval: 20ms", "probe-interval: 20ms\n  selection-port: 8620", "measurement.selection-port: with exchange: stamp, nothing is asked there; remove it"},
		{"direction: transit", "direction: transit\n    selection: assumed", "flows[1].selection: only the ingress of a path that asks others compares what they select; remove selection"},
		{"probe-interval: 20ms", "probe-interval: 9ms", "measurement.probe-interval: 9ms is too short; use 10ms or more"},
		{"probe-source: 2001:db8::9", "probe-source: 2001:db8::3", "2001:db8::3 is the source of flows[2], in which test packets would count"},
		{"clock-error: 5ms", "exchange: twamp-light", "messages of exchange: twamp-light do not say how good a clock is; set how far"},
		{"flow-label: 7", "flow-label: 7\n    session: 1206", "flows[1].session: 1206 is also the session of flows[0]; give each flow its own number"},
		{"session: 1206", "session: 65536", "flows[0].session: 65536 is too large"},
		{"probes: in-band", "probes: out-of-band", "flows[0].return-segments: only in-band packets ask for a way back"},
		{"probes: in-band", "probes: inband", `"inband" is not a valid value; write one of none, out-of-band, in-band, in-band-encap`},
		{"probes: in-band", "probes: in-band-encap, mode: inline", "flows[0].probes: packets of mode inline are not encapsulated"},
		{"probes: in-band", "probes: in-band, container: 32/16", "flows[0].probes: the point's address would take the place of the last container"},
		{"flow-label: 7", "flow-label: 7\n    probes: in-band", "flows[1].probes: test packets go to the last point, and there are no points"},
		{`return-segments: ["fc00:2::e"]`, `return-segments: ["ff02::1"]`, "flows[0].return-segments: not all are SIDs"},
		{`listen: "[2001:db8::9]:6374"`, `listen: "[2001:db8::9]:1205"`, "responders[0] has the same port; give each its own port"},
		{`listen: "[2001:db8::9]:6374"`, `listen: "2001:db8::9"`, `responders[1].listen`},
		{`allow: ["2001:db8::/32"], rate: 100}`, `allow: [], rate: 100}`, "responders[0].allow: 0 prefixes; list 1 to 64"},
		{`allow: ["2001:db8:0::/48"], rate: 10`, `allow: []`, "path-trace.allow: 0 prefixes; list 1 to 64 prefixes of the nodes that may trace"},
		{`allow: ["2001:db8:0::/48"], rate: 10`, `rate: 10`, "allow"},
		{`allow: ["2001:db8:0::/48"], rate: 10`, `allow: ["::/0"], listen: "[::]:862"`, "path-trace.listen: stamp.listen has the same port; give each its own port"},
		{`allow: ["2001:db8:0::/48"], rate: 10`, `allow: ["::/0"], listen: "[::]:1205"`, "path-trace.listen: responders[0].listen has the same port"},
		{"protocol: rfc6374-loss", "protocol: rfc6374-loss, short-queries: true", "responders[1].short-queries: no response of protocol: rfc6374-loss is longer than its query; remove it"},
		{"protocol: twamp-light", "protocol: twamp-light, short-queries: true", ""},
		{"protocol: rfc6374-loss", "protocol: rfc6374", "responders[1].protocol"},
	} {
		replaceAndParse(t, tt.from, tt.to, tt.want)
	}
	class := strings.Replace(strings.Replace(measuring, "carrier: argument", "carrier: traffic-class", 1), "ecn: true", "ecn: false", 1)
	class = strings.Replace(strings.Replace(class, "mask: 0xf0", "mask: 0xf1", 1), "octet: 14\n", "octet: 15\n", 1)
	if _, err := Parse("F", []byte(class)); err == nil || !strings.Contains(err.Error(), "0xf1 has bits of the ECN field") {
		t.Errorf("bits of the ECN field: %v", err)
	}
}

// TestSameSelection has two flows that select the same packets, or not.
func TestSameSelection(t *testing.T) {
	const (
		two  = `segments: ["fc00:2::e", "fc00:3::4"], direction: in`
		last = `segments: ["fc00:3::4"], direction: in`
		out  = `segments: ["fc00:2::e", "fc00:3::4"], direction: out`
	)
	for _, tt := range []struct {
		settings, first, second string
		same                    bool
	}{
		{"", two, two, true},
		{"", two, `segments: ["fc00:2::e", "fc00:3::4"], direction: transit`, true},
		{"", two, out, false},
		{"", two, two + ", traffic-class: 0", false},
		{"", two + ", traffic-class: 0x21", two + ", traffic-class: 0x2e", true}, // without the mark and ECN
		{"", two + ", traffic-class: 0x21", two + ", traffic-class: 0x31", false},
		{"", two + ", flow-label: 1", two + ", flow-label: 1", true},
		{"", two + ", flow-label: 1", two + ", flow-label: 2", false},
		{"", two + ", destination: 2001:db8::9", two + ", destination: 2001:db8::9", true},
		{"", two + ", destination: 2001:db8::9", two, false},
		{"", two + ", mode: encap.red", last, true}, // after the first segment
		{"", two, last, false},
		{"", two, `segments: ["fc00:2::e"], mode: inline, destination: "fc00:3::4", direction: in`, true},
		{"", two, two + ", mode: inline", false},
		{"carrier: argument", two, `segments: ["fc00:2::e", "fc00:3::8"], direction: in`, true}, // both are marked
		{"carrier: argument", two, `segments: ["fc00:2::4", "fc00:3::4"], direction: in`, false},
		{"carrier: option", two + ", flow-mon-id: 1", two + ", flow-mon-id: 2", false},
		{"carrier: option", out + ", flow-mon-id: 1", out + ", flow-mon-id: 2", true},
	} {
		text := fmt.Sprintf("%smeasurement: {%s}\nflows:\n  - {name: first, source: 2001:db8::1, %s}\n"+
			"  - {name: second, source: 2001:db8::1, %s}\n", served, tt.settings, tt.first, tt.second)
		_, err := Parse("F", []byte(text))
		const want = `flows[1].segments: flow "first" selects the same packets; give one of them another traffic-class, flow-label or destination`
		if tt.same && (err == nil || !strings.Contains(err.Error(), want)) || !tt.same && err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// replaceAndParse replaces a part of the file, which must then have an error; "": none.
func replaceAndParse(t *testing.T, from, to, want string) {
	t.Helper()
	text := strings.Replace(measuring, from, to, 1)
	if text == measuring {
		t.Fatalf("%q is not in the file", from)
	}
	_, err := Parse("F", []byte(text))
	switch {
	case err == nil && want != "":
		t.Errorf("%s is accepted", to)
	case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v\nwant %s", to, err, want)
	}
}

// TestPlacesOfPoints checks where points may be on a path.
func TestPlacesOfPoints(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"probes: in-band", "probes: none", "flows[0].points-after: only in-band questions travel through segments; set probes: in-band"},
		{"points-after: [1]", "points-after: [0, 1]", "flows[0].points-after: 2 numbers for 2 points; give a number for each point but the last"},
		{"points-after: [1]", "points-after: [2]", "flows[0].points-after: [2] does not follow the path; give numbers from 0 to 1"},
		{"points-after: [1]", "points-after: [2], mode: inline", ""},
		{`points: ["2001:db8::7",`, `points: ["2001:db8::6", "2001:db8::7",`, "flows[0].points-after: 1 numbers for 3 points"},
		{`points: ["2001:db8::7", "egress=[2001:db8::8]:8620"], session: 1206, probes: in-band, points-after: [1]`, `points: ["2001:db8::6", "2001:db8::7", "2001:db8::8"], probes: in-band, points-after: [1, 0]`, "[1 0] does not follow the path"},
	} {
		replaceAndParse(t, tt.from, tt.to, tt.want)
	}
}
