// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

func TestNames(t *testing.T) {
	c, err := Parse("node.yaml", []byte(`
node: {name: Zürich 1, id: 1}
interfaces: [{name: eth0, description: to r2, id: 101}]
names:
  - {id: 2, id-wide: 22, name: r2, interfaces: [{id: 201, name: east0, description: to r3}, {id-wide: 7, name: west0}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	n := c.Names[0].Node()
	if c.Node.Name != "Zürich 1" || n.ID != 2 || n.IDWide != 22 || n.Name != "r2" || len(n.Interfaces) != 2 ||
		n.Interfaces[0].ID != 201 || n.Interfaces[0].Description != "to r3" || n.Interfaces[1].ID != ioam.InterfaceIDUnavailable ||
		n.Interfaces[1].IDWide != 7 {
		t.Errorf("%+v", n)
	}
}

// Each error is at its place, with a cure.
func TestNameFaults(t *testing.T) {
	_, err := Parse("node.yaml", []byte(`node: {name: "r1\e[2J"}
interfaces: [{name: eth0, description: "\u202eto r2"}]
names:
  - {id: 2, name: r2}
  - {id: 2, name: r3}
  - {name: r4}
  - {id: 5, name: ""}
  - {id: 6, name: `+strings.Repeat("x", 65)+`, interfaces: [{id: 1, name: a}, {id: 1, name: b}, {name: c}]}
  - {id: 7, nam: r7}
  - {id-wide: 9, name: r9}
  - {id-wide: 9, name: r10}
`))
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`node.yaml:1:14: node.name: "r1\x1b[2J" has characters that a terminal cannot show safely; write`,
		`node.yaml:2:40: interfaces[0].description: "\u202eto r2" has characters`,
		"node.yaml:5:10: names[1].id: 2 is the id of names[0], too; keep one of both names",
		"node.yaml:6:5: names[2]: the node has no id; add",
		"node.yaml:7:19: names[3].name: the text is empty",
		"names[4].name: the name has 65 octets; write at most 64",
		"names[4].interfaces[1].id: 1 is the id of names[4].interfaces[0], too",
		"names[4].interfaces[2]: the interface has no id",
		`node.yaml:9:13: unknown key "nam" in names[5]; did you mean "name"?`,
		"names[7].id-wide: 9 is the id of names[6], too",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
