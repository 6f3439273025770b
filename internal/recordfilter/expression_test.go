// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
)

func TestExpressions(t *testing.T) {
	for where, want := range map[string]string{
		`kind == "trace"`: "t",
		`kind in ["trace", "loss"] and namespace != 7`:      "tl",
		`packet.destination_port == 9`:                      "t",
		`packet.next_header in [6, 17]`:                     "tf",
		`any(nodes, .transit_delay_ns > duration("100us"))`: "t",
		`any(nodes, {.node_id == 2 && .egress_id == 22})`:   "t",
		`all(nodes, .hop_limit > 0) and len(nodes) == 2`:    "t",
		`count(nodes, .transit_delay_ns >= 900) == 2`:       "t",
		`nodes[0].node_id == 1`:                             "t",
		`nodes[-1].node == "r2"`:                            "p",
		`within(packet.source, "2001:db8:1::/48")`:          "tf",
		`within(packet.destination, "2001:db8:3::2")`:       "f",
		`packet.destination startsWith "2001:db8:2:"`:       "t",
		`node matches "^r[13]$"`:                            "tfl",
		`overflow`:                                          "t",
		`complete`:                                          "p",
		`complete == false`:                                 "",
		`not complete`:                                      "tfl",
		`verdict == "uncertain" and ratio == nil`:           "l",
		`lost > 0`:                                                 "",
		`lost >= 0 || true`:                                        "tfpl",
		`sent - received == 1`:                                     "!!!l",
		`sent != nil and sent - received == 1`:                     "l",
		`(sent ?? 0) - (received ?? 0) == 1`:                       "l",
		`path_delay_us != 1500`:                                    "fpl",
		`path_delay_us < 1501 or delay_ns < 1e6`:                   "tp",
		`kind == "flow" && transit_delay_ns.max > duration("1ms")`: "f",
		`any(nodes, .since_previous_ns < 0)`:                       "p",
		`time >= "2026-11-21T05:21:00.000000001"`:                  "t",
		`lower(kind) == "path" ? complete : false`:                 "p",
		`last_seen.node == "r2"`:                                   "",
		`last_seen?.node == "r2" or flow == "red"`:                 "l",
		`none(nodes, .node_id == 2)`:                               "fpl",
		`trace_type == "0xf80000"`:                                 "tfp",
		`nodes | any(.node_id == 2)`:                               "t",
		`nodes | filter(.node_id == 2) | len() == 1`:               "t",
		`max(map(nodes, .transit_delay_ns ?? 0)) == 250000`:        "t",
		`"r2" in map(nodes, .node)`:                                "p",
	} {
		if got := selected(t, Filter{Where: where}); got != want {
			t.Errorf("%s selects %q, want %q", where, got, want)
		}
	}
}

// Errors say what is wrong and point at the place.
func TestWrongExpressions(t *testing.T) {
	for where, want := range map[string]string{
		`packet.destination_prot == 443`:                      "column 8: unknown field destination_prot; names are the keys of a record with --json\n  packet.destination_prot == 443\n  .......^",
		`nodes[0].sped > 1`:                                   "column 10: unknown field sped",
		`namespace == "seven"`:                                "column 11: invalid operation: == (mismatched types float64 and string)",
		`packet.source_port`:                                  "expected bool, but got float64",
		`kind == `:                                            "column",
		`now() == now()`:                                      "column 1: unknown name now",
		`repeat("a", 1000000) == ""`:                          "unknown name repeat",
		`any(nodes, any(nodes, true))`:                        "column 12: any within the brackets of another is not possible",
		`any(1..1000000, # == 5)`:                             "a range is not possible",
		`let a = kind; a == kind`:                             "want one condition, without names of its own",
		`kind matches node`:                                   "the pattern must be a text",
		`kind matches "((x{100}){10}y{900})"`:                 "the pattern is too long",
		`kind matches "("`:                                    "missing closing )",
		`duration("soon") > 1`:                                `column 10: "soon": want a time such as "1ms"`,
		`within(packet.source, "2001:db8::/129")`:             `want a prefix such as`,
		`within(packet.source, packet.source)`:                `want a prefix such as`,
		`nodes[0] == nodes[1]`:                                "an object has no value to compare",
		`$env.kind == ""`:                                     "$env is not available",
		`packet[kind] == 1`:                                   "want the name of a field",
		`kind == "` + strings.Repeat("x", maxLength) + `"`:    "more than the limit of 1024",
		"kind == \"\x1b[31m\"":                                "characters that cannot be printed",
		strings.Repeat("!", 300) + "overflow":                 "",
		strings.Repeat("1==1&&", 160) + "overflow":            "",
		strings.Repeat("(", 500) + strings.Repeat(")", 500):   "",
		strings.Repeat("[", 1000):                             "",
		`kind.x.y`:                                            "",
		`{"a": 1}.a == 1`:                                     "an object cannot be written here",
		`overflow()`:                                          "",
		`nodes.node_id == 1`:                                  "",
		`reduce(nodes, #acc + 1, 0) == 1`:                     "unknown name reduce",
		`any(nodes, .node_id == 1) && toJSON(nodes) == "[]"`:  "unknown name toJSON",
		`len(map(nodes, map(nodes, map(nodes, #)))) == 1`:     "within the brackets",
		`sum(nodes, count(nodes, true)) == 1`:                 "within the brackets",
		`any(filter(nodes, any(nodes, true)), .node_id == 1)`: "within the brackets",
	} {
		_, err := Filter{Where: where}.Compile()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v\nwant %s", where, err, want)
		}
	}
}

// Every key of every kind of records can be used, with the value that JSON has.
func TestEveryKey(t *testing.T) {
	for _, k := range record.Kinds() {
		for _, c := range k.Columns {
			if c.Key != "" && c.Key != "count" {
				everyKey(t, k.Name, c.Key, c)
			}
		}
	}
	for _, line := range goldenLines(t) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		r := parse(t, line)
		for key, value := range fields {
			where := fmt.Sprintf("%s == %s", key, literal(value))
			switch value.(type) {
			case nil:
				where = key + " == nil"
			case map[string]any, []any:
				continue
			}
			p, err := Filter{Where: where}.Compile()
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			if is, err := p.Match(r); !is || err != nil {
				t.Errorf("%s of a %s is %v, %v", where, r.Kind(), is, err)
			}
		}
	}
}

func literal(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

func everyKey(t *testing.T, kind, path string, c record.Column) {
	if _, err := (Filter{Where: path + " != nil"}).Compile(); err != nil && c.Form != "object" {
		t.Errorf("%s of a %s: %v", path, kind, err)
	}
	for _, in := range c.Columns {
		if in.Key == "" {
			continue
		}
		at := path + "." + in.Key
		if c.Form == "list" {
			at = path + "[0]." + in.Key
		}
		everyKey(t, kind, at, in)
	}
}

// No expression makes a panic, and no record does.
func FuzzExpression(f *testing.F) {
	for _, where := range []string{`any(nodes, .transit_delay_ns > duration("1ms"))`,
		`packet.destination_port == 443 and within(packet.source, "::/0")`, `not complete or node matches "^r"`,
		`nodes[0].x?.y ?? 1 in [1, 2]`, `sum(map(nodes, .hop_limit)) % 2 == 0`} {
		f.Add(where)
	}
	var records []record.Record
	for _, line := range append(goldenLines(f), traceLine, flowLine, pathLine, lossLine) {
		records = append(records, parse(f, line))
	}
	f.Fuzz(func(t *testing.T, where string) {
		p, err := Filter{Where: where}.Compile()
		if err != nil {
			return
		}
		for _, r := range records {
			first, err := p.Match(r)
			again, errAgain := p.Match(r)
			if first != again || (err == nil) != (errAgain == nil) {
				t.Errorf("%q: %v, %v, then %v, %v", where, first, err, again, errAgain)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, tt := range []struct {
		name string
		f    Filter
	}{
		{"kinds", Filter{Kinds: "flow"}}, {"port", Filter{Port: 443}}, {"node", Filter{Node: "r7"}}, {"min-delay", Filter{MinDelay: 1e9}},
		{"where kind", Filter{Where: `kind == "flow"`}}, {"where packet", Filter{Where: `packet.destination_port == 443`}},
		{"where nodes", Filter{Where: `any(nodes, .transit_delay_ns > duration("1ms"))`}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			p, err := tt.f.Compile()
			if err != nil {
				b.Fatal(err)
			}
			r := parse(b, traceLine)
			b.ReportAllocs()
			for b.Loop() {
				if is, err := p.Match(r); is || err != nil {
					b.Fatal(is, err)
				}
			}
		})
	}
	b.Run("JSON line", func(b *testing.B) { // for comparison: what a selected record costs at least
		r := parse(b, traceLine)
		b.ReportAllocs()
		var line []byte
		for b.Loop() {
			line = record.AppendLine(line[:0], r)
		}
	})
}
