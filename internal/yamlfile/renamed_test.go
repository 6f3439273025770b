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

// The command that renames keys can be given to a shell, whatever the file is called.
func TestMigrateForShell(t *testing.T) {
	type list struct {
		Now string `key:"now" was:"then"`
	}
	for name, want := range map[string]string{
		"/etc/waymark/node.yaml": "/etc/waymark/node.yaml",
		"my nodes/it's.yaml":     `'my nodes/it'\''s.yaml'`,
		"$(reboot).yaml":         "'$(reboot).yaml'",
		"-x.yaml":                "./-x.yaml",
		"-":                      "FILE",
	} {
		format := &Format{Scalars: libraryFile.Scalars, Migrate: "migrate %s --write"}
		l, r := &list{}, format.NewReader(name)
		node, ok := r.Document([]byte("then: 1\n"), l)
		if !ok {
			t.Fatal(r.Err())
		}
		r.Decode(node, l)
		if got := r.Renamed(); len(got) != 1 || !strings.HasSuffix(got[0].Cure, "or run: migrate "+want+" --write") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A key is only replaced where the whole of it stands.
func TestKeyAtWhole(t *testing.T) {
	for text, want := range map[string]bool{
		"foo: 1": true, "foo : 1": true, "foo:": true, "foo:\r\n  a: 1": true, "foo\n: 1": true, "foo, bar": true, "foo}": true, "foo": true,
		`"foo": 1`: true, `"foo":1`: true, "'foo' : 1": true, "foo # text\n: 1": true,
		"foobar: 1": false, "foo bar: 1": false, "foo:bar: 1": false, "foo-bar: 1": false, `"foobar": 1`: false, "'foo bar': 1": false, "fo: 1": false,
		`"foo': 1`: false,
	} {
		key := renamed{&Fault{Line: 1, Column: 1}, Field{Was: "foo"}}
		if _, found := keyAt([]byte(text), 0, key); found != want {
			t.Errorf("%q: %v, want %v", text, found, want)
		}
	}
}
