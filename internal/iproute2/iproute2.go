// SPDX-License-Identifier: Apache-2.0

// Package iproute2 reads the words of "ip ioam …" and "ip -6 route … encap ioam6 …":
// iproute2's grammar, abbreviations, defaults and refusals, with the cause and the fix
// in every error. It is stricter in two ways: a word given twice is an error
// everywhere, and a word that would have no effect is refused, or kept apart to be
// reported when it is about the kernel's route. It is more lenient in one: the order of
// the clauses before "trace", "dex", "pot" and "e2e" does not matter. It adds words for
// what iproute2 cannot express: flows, flow-id, option-type, pot, e2e and export, and the settings of namespaces; and the
// commands "interface" and "decapsulation".
package iproute2

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// Verb is the action of a command.
type Verb string

// The verbs; iproute2's synonyms (delete, list, lst) are folded into them.
const (
	Add     Verb = "add"
	Append  Verb = "append"
	Change  Verb = "change"
	Replace Verb = "replace"
	Del     Verb = "del"
	Show    Verb = "show"
	Set     Verb = "set"
)

// verbs lists the spellings of each verb, whose prefixes abbreviate it; where
// a prefix is ambiguous, the first wins, as in iproute2.
var verbs = []struct {
	spelling string
	verb     Verb
}{{"add", Add}, {"append", Append}, {"change", Change}, {"chg", Change}, {"show", Show}, {"set", Set}, {"replace", Replace},
	{"delete", Del}, {"list", Show}, {"lst", Show}}

// words is a cursor over the words of a command.
type words struct {
	list []string
	next int
}

func (w *words) more() bool { return w.next < len(w.list) }

func (w *words) peek() string { return w.list[w.next] }

// nextWord returns the next word, which belongs to name.
func (w *words) nextWord(name string) (string, error) {
	if !w.more() {
		return "", fmt.Errorf("%s: a value is missing", name)
	}
	w.next++
	return w.list[w.next-1], nil
}

// end refuses remaining words.
func (w *words) end() error {
	if w.more() {
		return fmt.Errorf("%q: nothing more is expected here", w.peek())
	}
	return nil
}

// verb reads an allowed verb; without any word it is show.
func (w *words) verb(allowed ...Verb) (Verb, error) {
	if !w.more() {
		return Show, nil
	}
	word, _ := w.nextWord("command")
	for _, v := range verbs {
		if slices.Contains(allowed, v.verb) && strings.HasPrefix(v.spelling, word) && word != "" {
			return v.verb, nil
		}
	}
	return "", problem.New(fmt.Sprintf("%q: unknown command", word), fmt.Sprintf("use one of %s", joinVerbs(allowed)))
}

func joinVerbs(vs []Verb) string {
	list := make([]string, len(vs))
	for i, v := range vs {
		list[i] = string(v)
	}
	return strings.Join(list, ", ")
}

// number reads an unsigned number of a width in bits, decimal, 0x… or 0….
func (w *words) number(name string, bits int) (uint64, error) {
	word, err := w.nextWord(name)
	if err != nil {
		return 0, err
	}
	return parseNumber(name, word, bits)
}

func parseNumber(name, word string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(word, 0, bits)
	if err != nil || strings.Contains(word, "_") {
		return 0, fmt.Errorf("%s %q: want a number from 0 to %#x", name, word, uint64(1)<<(bits-1)-1+uint64(1)<<(bits-1))
	}
	return n, nil
}

// NamespaceCommand is "namespace add|del|set|show …".
type NamespaceCommand struct {
	Verb      Verb
	Namespace config.Namespace        // Add; Del uses only its id, Set what it sets
	SetExport bool                    // Set: the export instead of the schema
	Change    *config.NamespaceChange // Set: settings instead of the schema, or nil
	Schema    *ioam.SchemaID          // Set; nil is none
}

// ParseNamespace reads what follows "namespace".
func ParseNamespace(args []string) (NamespaceCommand, error) {
	var c NamespaceCommand
	w := &words{list: args}
	var err error
	if c.Verb, err = w.verb(Add, Del, Set, Show); err != nil {
		return c, err
	}
	if c.Verb == Show {
		return c, w.end()
	}
	id, err := w.number("namespace id", 16)
	if err != nil {
		return c, err
	}
	c.Namespace.ID = ioam.NamespaceID(id)
	switch c.Verb {
	case Add:
		err = w.namespaceData(&c.Namespace)
	case Set:
		if c.SetExport = w.more() && w.peek() == "export"; c.SetExport {
			w.next++
			err = w.export(&c.Namespace)
		} else if w.more() && isSetting(w.peek()) {
			c.Change, err = w.settings()
		} else {
			c.Schema, err = w.schemaBinding()
		}
	}
	if err != nil {
		return c, err
	}
	return c, w.end()
}

func (w *words) namespaceData(ns *config.Namespace) error {
	ns.Data = config.Data(ioam.DataUnavailable)
	ns.DataWide = config.DataWide(ioam.DataWideUnavailable)
	seen := map[string]bool{}
	var change config.NamespaceChange
	for w.more() {
		word, _ := w.nextWord("")
		if word == "data" && seen[word] {
			word = "wide" // in the syntax of the patched iproute2 of Direct Export: [data DATA32] [data DATA64]
		}
		if seen[word] {
			return fmt.Errorf("%s: given twice", word)
		}
		seen[word] = true
		if isSetting(word) {
			if err := w.setting(&change, word); err != nil {
				return err
			}
			continue
		}
		switch word {
		case "data":
			n, err := w.number("data", 32)
			if err != nil {
				return err
			}
			ns.Data = config.Data(n)
		case "wide":
			n, err := w.number("wide", 64)
			if err != nil {
				return err
			}
			ns.DataWide = config.DataWide(n)
		case "export":
			if err := w.export(ns); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q: want data DATA32, wide DATA64, export WAY, pot FILE, or one of %s with on or off", word, settingWords)
		}
	}
	return change.Apply(ns)
}

// export reads none, every, aggregate, or sample with its n.
func (w *words) export(ns *config.Namespace) error {
	word, err := w.nextWord("export")
	if err != nil {
		return err
	}
	if ns.Export.UnmarshalText([]byte(word)) != nil {
		return fmt.Errorf("export %q: want none, every, aggregate or sample N", word)
	}
	if ns.Export != model.ExportSample {
		return nil
	}
	n, err := w.number("export sample", 32)
	if err == nil && (n < 1 || n > model.MaxFrequency) {
		err = fmt.Errorf("export sample %d: want N from 1 to %d, for a postcard for every N-th packet", n, model.MaxFrequency)
	}
	ns.Sample = config.Sample(n)
	return err
}

func (w *words) schemaBinding() (*ioam.SchemaID, error) {
	if word, err := w.nextWord("namespace set ID"); err != nil || word != "schema" {
		return nil, fmt.Errorf("namespace set ID: want schema {ID|none}, export WAY, pot {FILE|none}, or some of %s with on or off", settingWords)
	}
	if w.more() && w.peek() == "none" {
		w.next++
		return nil, nil
	}
	id, err := w.schemaID()
	return &id, err
}

func (w *words) schemaID() (ioam.SchemaID, error) {
	id, err := w.number("schema id", 24)
	if err == nil && ioam.SchemaID(id) == ioam.SchemaIDNone {
		err = problem.New(fmt.Sprintf("schema id %#x: this value means \"no schema\"", id), "choose another")
	}
	return ioam.SchemaID(id), err
}

// SchemaCommand is "schema add|del|show …".
type SchemaCommand struct {
	Verb   Verb
	Schema config.Schema // Del uses only its id
}

// ParseSchema reads what follows "schema".
func ParseSchema(args []string) (SchemaCommand, error) {
	var c SchemaCommand
	w := &words{list: args}
	var err error
	if c.Verb, err = w.verb(Add, Del, Show); err != nil {
		return c, err
	}
	if c.Verb == Show {
		return c, w.end()
	}
	if c.Schema.ID, err = w.schemaID(); err != nil {
		return c, err
	}
	if c.Verb == Add {
		if c.Schema.Data, err = w.nextWord("schema data"); err != nil {
			return c, err
		}
		if n := len(c.Schema.Data); n == 0 || n > maxSchemaData {
			return c, problem.New(fmt.Sprintf("schema data: %d bytes", n), fmt.Sprintf("want 1 to %d, what one option can carry", maxSchemaData))
		}
	}
	return c, w.end()
}

// maxSchemaData is the room that a trace option leaves for a snapshot's data after its
// 4-byte header.
const maxSchemaData = model.MaxTraceDataSize - 4
