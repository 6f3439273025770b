// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/problem"
)

// library is a type of file that no program has.
type library struct {
	Name    string   `key:"name" required:"true"`
	Opening hours    `key:"opening"`
	Shelves []shelf  `key:"shelves"`
	Closed  []string `key:"closed" optional:"true"`
	Lends   bool     `key:"lends-books" was:"lends" default:"true"`
}

type hours struct {
	From hour `key:"from" default:"9"`
	To   hour `key:"to" default:"17"`
}

type shelf struct {
	Letter string `key:"letter" required:"true"`
	Width  width  `key:"width" default:"80"`
	Kind   kind   `key:"kind" default:"books"`
}

type (
	hour  uint8
	width uint16
	kind  string
)

// libraryTexts say what its keys mean.
var libraryTexts = KeyTexts{
	"name":           "Its name.",
	"opening":        "When it is open.",
	"shelves":        "Its shelves.",
	"closed":         "Days on which it is closed.",
	"closed, absent": "never",
	"lends-books":    "Whether books may leave it.",
}.With("opening", KeyTexts{
	"from": "The first hour.",
	"to":   "The last hour.",
}).With("shelves[]", KeyTexts{
	"letter": "The first letter of the names of authors.",
	"width":  "In centimetres.",
	"kind":   "What stands in it.",
})

var libraryFile = &Format{
	Scalars: Scalars{
		reflect.TypeFor[bool]():   Bools,
		reflect.TypeFor[string](): Texts,
		reflect.TypeFor[hour](): NewCodec(Number, "a number from 0 to 23", func(s string) (hour, error) {
			v, err := ParseUint(s, 8)
			if err == nil && v == 24 {
				err = problem.New("a day ends before 24", "write 0, or 23 for the last hour")
			} else if err == nil && v > 24 {
				err = fmt.Errorf("%s is not an hour", s)
			}
			return hour(v), err
		}, func(h hour) string { return fmt.Sprint(h) }),
		reflect.TypeFor[width](): Unsigned[width](16),
		reflect.TypeFor[kind]():  Words(NamedWords([]kind{"books", "maps"})...),
	},
	MostItems: map[string]int{"shelves": 100},
	TooLarge:  "open a second library", TooMany: "sell some books", Empty: "write at least: name: NAME",
}

// parseLibrary reads a library, whose one rule is that letters are single.
func parseLibrary(text string) (*library, error) {
	l := &library{}
	err := libraryFile.Parse("F", []byte(text), l, func(r *Reader) {
		for i, s := range l.Shelves {
			if len(s.Letter) != 1 {
				r.Refuse(fmt.Sprintf("shelves[%d].letter", i), fmt.Sprintf("%q is not one letter", s.Letter), "write one")
			}
		}
		if l.Opening.From > l.Opening.To {
			r.Refuse("opening.to", "it closes before it opens", "exchange from and to")
		}
	})
	return l, err
}

// A second type of file gets the same errors as a node's configuration: each with its line, its
// column and a cure, all at once, and none that follows from another.
func TestFaultsOfAnotherFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "nome: A", []string{`1:1: unknown key "nome" in the file; did you mean "name"?`}},
		{"unknown key far from any", "name: A\nopening: {color: red}", []string{`2:11: unknown key "color" in opening; use the keys from, to`}},
		{"duplicate key", "name: A\nlends-books: true\nname: B", []string{`3:1: key "name" of the file is already in line 1; remove one`}},
		{"missing key", "lends-books: false", []string{`1:1: key "name" is missing in the file; add it, as in "name: VALUE"`}},
		{"wrong types", "name: [A]\nshelves: {letter: A}\nlends-books: \"yes\"", []string{
			`1:7: name is a list; write text`, `2:10: shelves is a mapping; write a list: - before each item`, `3:14: lends-books is the text "yes"; write true or false`}},
		{"a value's own cure", "name: A\nopening: {from: 24, to: 30}", []string{
			`2:17: opening.from: a day ends before 24; write 0, or 23 for the last hour`, `2:25: opening.to: 30 is not an hour; write a number from 0 to 23`}},
		{"rules", "name: A\nopening: {from: 12, to: 3}\nshelves: [{letter: AB}]", []string{
			`2:25: opening.to: it closes before it opens; exchange from and to`, `3:20: shelves[0].letter: "AB" is not one letter; write one`}},
		{"a rule about a value that is wrong", "name: A\nopening: {from: x}\nshelves: [{letter: [A]}]", []string{
			`2:17: opening.from: "x" is not a number; write a number from 0 to 23`, `3:20: shelves[0].letter is a list; write text`}},
		{"a word", "name: A\nshelves: [{letter: A, kind: book}]", []string{`2:29: shelves[0].kind: "book" is not a valid value; write one of books, maps`}},
		{"listed twice", "name: A\nclosed: [monday, monday]", []string{`2:18: closed lists monday twice; remove one`}},
		{"not YAML", "name: A\n\tx: 1", []string{"2:1: this is not YAML: a tab is used where only spaces may be; indent with spaces"}},
		{"an anchor", "name: &a A", []string{`1:7: name uses an anchor, which is not supported here; write the value itself`}},
		{"empty", "# nothing\n", []string{`1:1: the file is empty; write at least: name: NAME`}},
		{"too large", strings.Repeat("# comment\n", MaxFileSize/10+1), []string{`1:1: the file is larger than 33554432 bytes; open a second library`}},
	} {
		_, err := parseLibrary(tt.text)
		want := "F:" + strings.Join(tt.want, "\nF:")
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, want)
		}
	}
}

// The first errors are listed and the others counted, in a long list, too, which is read in pieces
// up to its bound.
func TestBoundsOfAnotherFile(t *testing.T) {
	_, err := parseLibrary("name: A\nshelves: [" + strings.Repeat("{letter: A, width: x}, ", 80) + "]")
	var faults Faults
	const rest = "there are 30 more errors; correct these first"
	if !errors.As(err, &faults) || len(faults) != MostFaults+1 || !strings.HasSuffix(err.Error(), rest) {
		t.Errorf("%v", err)
	}
	libraryFile.Pieces = Pieces{Larger: 100, Size: 100}
	defer func() { libraryFile.Pieces = Pieces{} }()
	_, err = parseLibrary("name: A\nshelves:\n" + strings.Repeat("- {letter: A, kind: maps}\n", 150) + "lends-books: 7\n")
	want := "F:2:1: shelves: 150 shelves; use at most 100\nF:153:14: lends-books is the number 7; write true or false"
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	_, err = parseLibrary("name: A\nshelves:\n" + strings.Repeat("- {letter: A, kind: maps}\n", 70) + "- letter: BC\n")
	if want := `F:73:11: shelves[70].letter: "BC" is not one letter; write one`; fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// What is written, as YAML or JSON, reads the same; the reference has each key.
func TestWriteAnotherFile(t *testing.T) {
	l, err := parseLibrary("name: A b\nopening: {to: 12}\nshelves: [{letter: A}, {letter: B, kind: maps, width: 0x50}]\n")
	if err != nil {
		t.Fatal(err)
	}
	const yaml = `name: "A b"
opening:
  from: 9
  to: 12
shelves:
  - letter: "A"
    width: 80
    kind: books
  - letter: "B"
    width: 80
    kind: maps
lends-books: true
`
	if text := string(libraryFile.Marshal(l)); text != yaml {
		t.Errorf("YAML is\n%s", text)
	}
	json, err := libraryFile.JSON(l)
	if err != nil || !strings.Contains(string(json), `"lends_books":true`) {
		t.Errorf("JSON is %s, %v", json, err)
	}
	for _, text := range []string{yaml, string(json)} {
		if again, err := parseLibrary(text); err != nil || !libraryFile.Equal(l, again) {
			t.Errorf("%s: %+v, %v", text, again, err)
		}
	}
	reference := string(libraryFile.Reference(&library{}, libraryTexts))
	for _, row := range []string{
		"## `shelves[]`", "| `kind` | one of books, maps | `books` | What stands in it. |", "| `name` | text | *required* | Its name. |",
	} {
		if !strings.Contains(reference, row) {
			t.Errorf("the reference lacks %s:\n%s", row, reference)
		}
	}
}

// A key without a text is found, and a text without a key.
func TestTextsOfAnotherFile(t *testing.T) {
	if problems := libraryFile.CheckTexts(&library{}, libraryTexts); problems != nil {
		t.Error(problems)
	}
	other := libraryTexts.With("opening", KeyTexts{"from": "", "until": "The last hour.", "to, absent": "17"}).With("shelves",
		KeyTexts{"kind": "What stands in it."}).With("", KeyTexts{"closed, absent": ""})
	want := []string{"the key opening.from has no text", "no text says what the absence of the key closed means",
		"the text of opening.to, absent has no key", "the text of opening.until has no key", "the text of shelves.kind has no key"}
	if problems := libraryFile.CheckTexts(&library{}, other); !slices.Equal(problems, want) {
		t.Errorf("%q, want %q", problems, want)
	}
}

// Lines are counted as editors do, whatever ends them.
func TestLinesOfCRLF(t *testing.T) {
	const text = "# first\n{\n  # second\n  \"name\": \"a\",\n  # third\n  \"colour\": 1\n}\n"
	for _, file := range []string{text, strings.ReplaceAll(text, "\n", "\r\n")} {
		if _, err := parseLibrary(file); err == nil || !strings.HasPrefix(err.Error(), `F:6:3: unknown key "colour"`) {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// A key that has been renamed is read by its former name, too, and is reported.
func TestRenamedKey(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"name: a\nlends-books: false\n", ""},
		{"name: a\nlends: false\n", `F:2:1: the key "lends" in the file is now called "lends-books"; write lends-books: instead`},
	} {
		l, r := &library{}, libraryFile.NewReader("F")
		node, ok := r.Document([]byte(tt.text), l)
		if !ok {
			t.Fatal(r.Err())
		}
		if r.Decode(node, l); !r.Sound() || l.Lends {
			t.Errorf("%q: %v, %+v", tt.text, r.Err(), l)
		}
		if got := r.Renamed().Error(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	if _, err := parseLibrary("name: a\nlends: true\nlends-books: true\n"); err == nil ||
		!strings.Contains(err.Error(), "is already in line 2") {
		t.Errorf("both names: %v", err)
	}
}
