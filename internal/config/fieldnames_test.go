// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

const fieldNames = `node: {id: 1}
interfaces: [{name: eth0, id: 101, role: [egress]}]
namespaces: [{id: 123}]
encapsulations:
  - {name: a, interface: eth0, mode: inline, options: [{trace: {namespace: 123, type: %s, size: 60}}]}
path-trace: {allow: %s}
`

// A trace type is a number or names of fields, and any is every prefix.
func TestFieldNames(t *testing.T) {
	for text, want := range map[string]ioam.TraceType{
		"0xf80000": 0xf80000, `"0xf80000"`: 0xf80000, "[ids, timestamps, delay]": 0xf80000, "[ids]": 0xc00000, "ids": 0xc00000,
		`"ids,queue"`: 0xc20000,
	} {
		c, err := Parse("test", []byte(fmt.Sprintf(fieldNames, text, "[any]")))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Encapsulations[0].Options[0].Trace.Type; got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
		if got := Prefixes(c.Trace.Allow); len(got) != 1 || got[0] != netip.MustParsePrefix("::/0") {
			t.Errorf("any is %v", got)
		}
	}
	for text, want := range map[string]string{
		"f80000": `trace.type: "f80000" lacks 0x before its digits; did you mean 0xf80000?`, "800000": "did you mean 0x800000?",
		"8e0000": "did you mean 0x8e0000?", "080000": "did you mean 0x080000?", "888": "has undefined bits",
		"[ids, times]": `"times" is no field of a trace`, "[]": "is a list", "[1, ids]": "is a list", `["ids,queue"]`: "is a list",
		"0x1000000": "too large", "[[ids]]": "is a list", "{ids: queue}": "is a mapping",
	} {
		if _, err := Parse("test", []byte(fmt.Sprintf(fieldNames, text, "[any]"))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		} else if strings.Contains(want, "did you mean") && !strings.HasSuffix(err.Error(), "?") {
			t.Errorf("%s: another cure follows: %v", text, err)
		}
	}
	if _, err := Parse("test", []byte(fmt.Sprintf(fieldNames, "ids", "[everybody]"))); err == nil || !strings.Contains(err.Error(), "or any") {
		t.Errorf("allow: [everybody]: %v", err)
	}
}
