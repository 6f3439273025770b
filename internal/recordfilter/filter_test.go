// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// parse reads a record.
func parse(t testing.TB, line string) record.Record {
	t.Helper()
	r, err := record.Parse([]byte(line))
	if err != nil || r == nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// Records of four kinds.
const (
	traceLine = `{"kind":"trace","time":"2026-11-21T05:21:00.000000001Z","node":"r3","interface":"east0","option":"pre-allocated",` +
		`"namespace":123,"trace_type":"0xf80000","overflow":true,"remaining":1,` +
		`"path_delay_us":1500,"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,` +
		`"destination_port":9,"flow_label":7,"length":128},` +
		`"nodes":[{"hop_limit":63,"node_id":1,"ingress_id":11,"egress_id":12,"transit_delay_ns":900},` +
		`{"hop_limit":62,"node_id":2,"ingress_id":21,"egress_id":22,"transit_delay_ns":250000}]}`
	flowLine = `{"kind":"flow","time":"2026-11-21T05:21:00Z","node":"r1","role":"transit","ingress":"eth0","egress":"eth1","namespace":7,` +
		`"trace_type":"0xf80000","flow_id":305,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:3::2","next_header":6,"source_port":443,"destination_port":50000,` +
		`"flow_label":0},"packets":100,"bytes":12800,` +
		`"transit_delay_ns":{"min":5000,"max":20000000,"sum":99000000,"count":99},"hop_limit":{"min":62,"max":63},"end_reason":"interval"}`
	pathLine = `{"kind":"path","time":"2026-11-21T05:21:00Z","namespace":7,"trace_type":"0xf80000","flow_id":305,"sequence":1,` +
		`"complete":true,"nodes":[{"node":"r1","role":"encapsulating"},{"node":"r2","since_previous_ns":-5}],"delay_ns":70000}`
	lossLine = `{"kind":"loss","time":"2026-11-21T05:21:00Z","node":"r1","flow":"red","flow_id":9,"scope":"segment","from":1,"to":2,` +
		`"from_node":"r1","to_node":"r4","block":3,"start":"2026-11-21T05:20:00Z","length_ns":1000000000,` +
		`"verdict":"uncertain","sent":10,"received":9,"lost":null,"duplicated":null,"ratio":null,"sent_bytes":null,"received_bytes":null,` +
		`"lost_bytes":null,"duplicated_bytes":null}`
)

// selected says which of the four records a filter selects, as the first letters of their kinds.
func selected(t testing.TB, f Filter) string {
	t.Helper()
	p, err := f.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var kinds string
	for _, line := range []string{traceLine, flowLine, pathLine, lossLine} {
		r := parse(t, line)
		is, err := p.Match(r)
		if err != nil {
			kinds += "!"
		}
		if is {
			kinds += r.Kind()[:1]
		}
	}
	return kinds
}

// Each setting selects what it says, and comes unchanged through the API.
func TestSettings(t *testing.T) {
	for _, tt := range []struct{ flag, value, want string }{
		{"kind", "trace", "t"}, {"kind", "loss,path", "pl"},
		{"namespace", "123", "t"}, {"namespace", "0x7", "fp"},
		{"source", "2001:db8:1::/48", "tf"}, {"destination", "2001:db8:2::2", "t"},
		{"port", "9", "t"}, {"port", "443", "f"}, {"port", "50000", "f"}, {"port", "1", ""},
		{"protocol", "udp", "t"}, {"protocol", "6", "f"}, {"protocol", "TCP", "f"}, {"protocol", "0", ""},
		{"node", "r1", "fpl"}, {"node", "r4", "l"}, {"node", "2", "t"}, {"node", "0x2", "t"}, {"node", "9", ""},
		{"interface", "east0", "t"}, {"interface", "eth1", "f"}, {"interface", "22", "t"},
		{"flow", "red", "l"}, {"flow", "305", "fp"}, {"flow", "9", "l"},
		{"min-delay", "1.5ms", "tf"}, {"min-delay", "1501us", "f"}, {"min-delay", "70us", "tfp"}, {"min-delay", "21ms", ""}, {"min-delay", "250us", "tf"},
		{"incomplete", "true", "tl"}, {"incomplete", "false", "tfpl"},
		{"where", `node_id == nil && kind == "flow"`, "f"},
	} {
		var f Filter
		i := index(t, tt.flag)
		if tt.flag == "where" {
			tt.value = `kind == "flow"`
		}
		if err := Settings[i].Set(&f, tt.value); err != nil {
			t.Errorf("--%s %s: %v", tt.flag, tt.value, err)
			continue
		}
		if got := selected(t, f); got != tt.want {
			t.Errorf("--%s %s selects %q, want %q", tt.flag, tt.value, got, tt.want)
		}
		back, err := FromQuery(f.Query())
		if err != nil || back.Query().Encode() != f.Query().Encode() || selected(t, back) != tt.want {
			t.Errorf("--%s %s: %v became %v, %v", tt.flag, tt.value, f.Query(), back.Query(), err)
		}
	}
}

func index(t *testing.T, flag string) int {
	for i, s := range Settings {
		if s.Flag == flag {
			return i
		}
	}
	t.Fatalf("there is no --%s", flag)
	return 0
}

// All that is set must be met.
func TestSettingsTogether(t *testing.T) {
	f, err := FromQuery(url.Values{"node": {"2"}, "min-delay": {"1ms"}, "port": {"9"}, "where": {"overflow"}})
	if err != nil || selected(t, f) != "t" {
		t.Error(selected(t, f), err)
	}
	f.MinDelay = 2 * time.Millisecond
	if got := selected(t, f); got != "" {
		t.Error(got)
	}
}

func TestWrongSettings(t *testing.T) {
	for query, want := range map[string]string{
		"namespace=65536":           "want a number from 0 to 65535",
		"source=192.0.2.1":          "want an IPv6 prefix",
		"destination=fe80::1%25eth": "want an IPv6 prefix",
		"port=0":                    "want a number from 1 to 65535",
		"protocol=quic":             "want a number from 0 to 255, tcp",
		"node=":                     "want a name",
		"min-delay=-1s":             "want a time such as 1ms",
		"incomplete=maybe":          "want true or false",
		"kinds=loss,trce":           `"trce" is no kind of records; did you mean trace? All kinds are block, delay, direct-export`,
		"kinds=x":                   `"x" is no kind of records; want one of block, delay`,
		"colour=red":                "colour: unknown; filter by kinds, namespace,",
		"port=1&port=2":             "port is given 2 times",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromQuery(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

// The fields that a search knows are fields of records.
func TestSearchedKeys(t *testing.T) {
	known := map[string]bool{}
	for _, k := range record.Kinds() {
		collectKeys(known, k.Columns)
	}
	for key := range roles {
		if !known[key] && !notYet[key] {
			t.Errorf("no record has %s", key)
		}
	}
}

func collectKeys(into map[string]bool, columns []record.Column) {
	for _, c := range columns {
		into[c.Key] = true
		collectKeys(into, c.Columns)
	}
}

// goldenLines are records of all kinds and fields.
func goldenLines(t testing.TB) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("../record/testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(content) {
			lines = append(lines, string(line))
		}
	}
	return lines
}
