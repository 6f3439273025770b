// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// large is a file whose lists are read in pieces: n flows in various forms, then other keys.
func large(n int) string {
	var b strings.Builder
	b.WriteString("# a large file\nnode: {id: 1}\nmeasurement: {clock-error: 1ms}\nflows: # measured\n\n")
	for i := range n {
		switch i % 3 {
		case 0:
			fmt.Fprintf(
				&b,
				"  - {name: f%d, direction: out, source: \"2001:db8::1\", segments: [\"fc00::%x\"], destination: \"2001:db8::%x\"}\n",
				i,
				i,
				i,
			)
		case 1:
			fmt.Fprintf(
				&b,
				"  # the next one\n  - name: f%d\n    direction: in\n\n    source: \"2001:db8::2\"\n    segments:\n    - \"fc00::%x\"\n"+
					"    - \"fc00::1:%x\"\n",
				i,
				i,
				i,
			)
		default:
			fmt.Fprintf(
				&b,
				"  -\n    name: f%d\n    direction: in\n    source: \"2001:db8::3\"\n    segments: [\"fc00::%x\",\n      \"fc00::2:%x\"]\n",
				i,
				i,
				i,
			)
		}
	}
	b.WriteString("interfaces:\n- {name: eth0}\n- {name: eth1}\nnamespaces: [{id: 5}]\nmetrics: {listen: none}\n")
	return b.String()
}

// parseWhole parses a file of any size as a whole.
func parseWhole(text string) (*Config, error) {
	c := &Config{}
	whole := &yamlfile.Format{Scalars: codecs}
	err := whole.Parse("f.yaml", []byte(text), c, func(r *yamlfile.Reader) {
		c.source = r.Source()
		(&decoder{r}).semantics(c)
	})
	return c, err
}

// What is read in pieces is what would be read as a whole, with errors at the same places.
func TestLargeFileInPieces(t *testing.T) {
	defer func(before yamlfile.Pieces) { nodeFile.Pieces = before }(nodeFile.Pieces)
	nodeFile.Pieces = yamlfile.Pieces{Larger: 10 << 10, Size: 1 << 10}
	const flows = 600
	text := large(flows)
	if len(text) <= nodeFile.Pieces.Larger {
		t.Fatalf("%d octets are not large", len(text))
	}
	whole, err := parseWhole(text)
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if flows, interfaces := pieces.source.Pieces("flows"), pieces.source.Pieces("interfaces"); flows < 10 || interfaces != 1 {
		t.Fatalf("the lists were read in %d and %d pieces", flows, interfaces)
	}
	if len(pieces.Flows) != flows || string(pieces.Marshal()) != string(whole.Marshal()) {
		t.Errorf("%d flows; the results differ", len(pieces.Flows))
	}
	for _, wrong := range []struct{ name, old, with string }{
		{"a value", "name: f300, direction: out", "name: f300, direction: up"},
		{"an unknown key", "{name: f300, ", "{nam: f300, "},
		{"a key twice", "{name: f300, ", "{name: f300, name: f1, "},
		{"a rule", "\"2001:db8::2\"\n    segments:\n    - \"fc00::12d\"", "\"ff02::2\"\n    segments:\n    - \"fc00::12d\""},
		{"a name twice", "name: f301\n", "name: f300\n"},
		{"a key after the list", "metrics: {listen: none}", "metrics: {listen: nowhere}"},
		{"a list twice", "interfaces:\n", "flows:\n- {name: x}\ninterfaces:\n"},
		{"YAML", "{name: f300, direction: out", "{name: f300, direction: [out"},
	} {
		text := strings.Replace(text, wrong.old, wrong.with, 1)
		_, want := parseWhole(text)
		_, got := Parse("f.yaml", []byte(text))
		var faults Faults
		if want == nil || !errors.As(got, &faults) || wrong.name != "YAML" && got.Error() != want.Error() || faults[0].Line < 100 {
			t.Errorf("%s:\n got %.400v\nwant %.400v", wrong.name, got, want)
		}
	}
}

// A list with more items than a node may have is not read to its end.
func TestLongListEnds(t *testing.T) {
	_, err := Parse("f.yaml", []byte("namespaces:\n"+strings.Repeat("- {id: 1}\n", 200_000)))
	var faults Faults
	if !errors.As(err, &faults) || !strings.Contains(err.Error(), "f.yaml:1:1: namespaces: 200000 namespaces; use at most 1024") {
		t.Errorf("%.300v", err)
	}
}
