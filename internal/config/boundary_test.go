// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

// filtering has policies of namespaces.
const filtering = "interfaces: [{name: eth0, boundary: {default: strip, namespaces: {123: ignore, 0x7: drop}}}]\n"

func TestBoundary(t *testing.T) {
	policies := []model.NamespacePolicy{{Namespace: 7, Boundary: model.BoundaryDrop}, {Namespace: 123, Boundary: model.BoundaryIgnore}}
	for text, want := range map[string]Boundary{
		"strip":                                {Default: model.BoundaryStrip},
		"{}":                                   {},
		"{default: ignore, namespaces: {}}":    {Default: model.BoundaryIgnore},
		"{namespaces: {123: ignore, 7: drop}}": {Namespaces: policies},
		`{"namespaces":{"7":"drop","123":"ignore"}}`:                 {Namespaces: policies},
		"\n      default: strip\n      namespaces:\n        7: drop": {Default: model.BoundaryStrip, Namespaces: policies[:1]},
	} {
		c := mustParse(t, "interfaces:\n  - name: eth0\n    boundary: "+text+"\n")
		if got := c.Interfaces[0].Boundary; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if again := mustParse(t, string(c.Marshal())); !same(c, again) || !c.Equal(again) {
			t.Errorf("%s is written as\n%s", text, c.Marshal())
		}
		written, err := json.Marshal(c.Interfaces[0].Boundary)
		var read Boundary
		if err != nil || json.Unmarshal(written, &read) != nil || !reflect.DeepEqual(read, want) {
			t.Errorf("%s: %s, %v", text, written, err)
		}
	}
	c := mustParse(t, filtering)
	if text, _ := json.Marshal(c.Interfaces[0].Boundary); string(text) != `{"default":"strip","namespaces":{"7":"drop","123":"ignore"}}` {
		t.Errorf("JSON %s", text)
	}
	if text := c.Interfaces[0].Boundary.String(); text != "strip ns 7 drop ns 123 ignore" {
		t.Errorf("words %s", text)
	}
	other := mustParse(t, strings.Replace(filtering, "ignore", "strip", 1))
	if c.Equal(other) {
		t.Error("another policy of a namespace makes no difference")
	}
}

func TestBoundaryFaults(t *testing.T) {
	for text, want := range map[string]string{
		"keep":                                `1:37: interfaces[0].boundary: "keep" is not a valid value; write drop, strip or ignore, or a mapping with default and namespaces`,
		"[drop]":                              `1:37: interfaces[0].boundary is a list; write drop, strip or ignore, or a mapping with default and namespaces`,
		"{other: drop}":                       `1:38: unknown key "other" in interfaces[0].boundary; use the keys default, namespaces`,
		"{default: keep}":                     `1:47: interfaces[0].boundary.default: "keep" is not a valid value; write one of drop, strip, ignore`,
		"{namespaces: [7]}":                   `1:50: interfaces[0].boundary.namespaces is a list; write a mapping of namespaces to drop, strip or ignore, such as {123: ignore}`,
		"{namespaces: {x: drop}}":             `1:51: interfaces[0].boundary.namespaces has the key "x", which is not a namespace: `,
		"{namespaces: {-1: drop}}":            `1:51: interfaces[0].boundary.namespaces has the key "-1", which is not a namespace: `,
		"{namespaces: {70000: drop}}":         `1:51: interfaces[0].boundary.namespaces has the key "70000", which is not a namespace: `,
		"{namespaces: {7: keep}}":             `1:54: interfaces[0].boundary.namespaces.7: "keep" is not a valid value; write one of drop, strip, ignore`,
		"{namespaces: {7: drop, 0x7: strip}}": `1:60: namespace 7 of interfaces[0].boundary.namespaces is already in line 1; remove one`,
	} {
		_, err := Parse("F", []byte("interfaces: [{name: eth0, boundary: "+text+"}]"))
		var faults Faults
		if !errors.As(err, &faults) || len(faults) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
