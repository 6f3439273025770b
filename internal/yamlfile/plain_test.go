// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// shape is all of a tree that the decoder looks at.
func shape(n ast.Node) string {
	at := nodePosition(n)
	text, kind := scalarText(n)
	s := fmt.Sprintf("%d:%d %s %s %q", at.Line, at.Column, kind, n.GetToken().Type, text)
	if pairs, ok := pairsOf(n); ok && kind != ast.NullType {
		s = fmt.Sprintf("%d:%d mapping", at.Line, at.Column)
		for _, pair := range pairs {
			s += "\n" + shape(pair.Key) + " =\n" + shape(pair.Value)
		}
		return s + "\nend"
	}
	if list, ok := n.(*ast.SequenceNode); ok {
		s = fmt.Sprintf("%d:%d list", at.Line, at.Column)
		for _, item := range list.Values {
			s += "\n" + shape(item)
		}
		return s + "\nend"
	}
	return s
}

// firstDifference is the first line that differs.
func firstDifference(plain, general string) string {
	lines, want := strings.Split(plain, "\n"), strings.Split(general, "\n")
	for i := range min(len(lines), len(want)) {
		if lines[i] != want[i] {
			return fmt.Sprintf("plain %s, general %s", lines[i], want[i])
		}
	}
	return fmt.Sprintf("plain has %d values, general %d", len(lines), len(want))
}

// samePlain compares a text's tree with the general parser's; read is false if the text is not plain.
func samePlain(t *testing.T, text string) (read bool) {
	t.Helper()
	got, ok := plainList([]byte(text))
	if !ok {
		return false
	}
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil || len(file.Docs) != 1 {
		t.Fatalf("%q is plain, and to the general parser: %v", text, err)
	}
	if want := shape(file.Docs[0].Body); shape(got) != want {
		t.Fatalf("%q: %s", text, firstDifference(shape(got), want))
	}
	return true
}

// Texts that are read as plain, and texts that the general parser reads.
var (
	plainTexts = []string{
		"- {name: a, id: 7, wide: 0x1f, on: true, part: 1.5, at: 2001:db8::1, list: [a, b], none: [], empty: {}}\n- {name: b}\n",
		"  - name: a\n    match: {source: 2001:db8::/64, port: 1-2}\n    list:\n      - \"fc00:1::1\"\n      - 'x y'\n    in:\n      deep: 1\n\n  - name: b\n",
		"-   a: 1\n    b: 2\n- c\n- [1, 010, 1e3, 0b1, 0o7, 12_000, \"\", '#', 10%, True, tru, nu, false]", "- {a: [ 1, 2], b: { c: d}}\n",
	}
	otherTexts = []string{
		"- {a: 1} # comment\n", "# comment\n- a\n", "- &a b\n", "- *a\n", "- \"a\\tb\"\n", "- 'a''b'\n", "- a b\n", "- ä\n", "- \"ä\"\n", "- |\n  text\n",
		"- {a: }\n", "- {a}\n", "- [a: b]\n", "- [1,\n  2]\n", "- - a\n", "- a:\n", "- a:\n  - b\n", "- null\n", "- ~\n", "-\n  a: 1\n", "- a\n\t- b\n",
		"- {a: ::1}\n", "- {a: 1 }\n", "- {a: 1}  \n", "- {a: [2001:db8::1]}\n", "- {a: b::}\n", "- a: 1\n   b: 2\n", "- a: 1\n b: 2\n", "- a\n  - b\n", "  - a\n - b\n", "- {a: 1}}\n", "- [a,]\n", "- {1: a}\n",
		"- {true: a}\n", "- {\"a\": 1}\n", "- {a: \"b\"c}\n", "- a: \"b\" c\n", "- a\r\n", "- a\n---\n- b\n", "a: 1\n", "",
	}
)

// A piece in plain YAML becomes the tree of the general parser; what is not plain is left to it.
func TestPlain(t *testing.T) {
	for _, text := range plainTexts {
		if !samePlain(t, text) {
			t.Errorf("%q is not read as plain", text)
		}
	}
	for _, text := range otherTexts {
		if samePlain(t, text) {
			t.Errorf("%q is read as plain", text)
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, text := range append(plainTexts, otherTexts...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, deep, many := exceeds([]byte(text)); !deep && !many && !strings.Contains(text, "\x00") {
			samePlain(t, text)
		}
	})
}
