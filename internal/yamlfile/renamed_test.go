// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"strings"
	"testing"
)

// Keys in items of a list are renamed too, also where it is read in pieces.
func TestRewriteItems(t *testing.T) {
	type item struct {
		Now string `key:"now" was:"then"`
	}
	type list struct {
		Items []item `key:"items"`
	}
	var b strings.Builder
	b.WriteString("items: # then\n")
	for i := range 50 {
		fmt.Fprintf(&b, "  # then: %d\n  - {then: \"then: %d\"}\n  -\n    'then'  : then%d # then\n", i, i, i)
	}
	text := b.String()
	want := strings.ReplaceAll(strings.ReplaceAll(text, "{then:", "{now:"), "'then'", "'now'")
	for _, pieces := range []Pieces{{}, {Larger: 1, Size: 1}, {Larger: 1, Size: 100}} {
		format := &Format{Scalars: libraryFile.Scalars, Pieces: pieces}
		l, r := &list{}, format.NewReader("F")
		node, ok := r.Document([]byte(text), l)
		if !ok {
			t.Fatal(r.Err())
		}
		r.Decode(node, l)
		if got, err := r.Rewrite([]byte(text)); err != nil || string(got) != want || len(r.Renamed()) != 100 {
			t.Errorf("%+v: %v, %d keys:\n%s", pieces, err, len(r.Renamed()), got)
		}
	}
}
