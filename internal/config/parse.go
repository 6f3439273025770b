// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/waymark-net/waymark/internal/inputfile"
)

// MaxFileSize bounds a file in bytes: 65,536 measured flows with 16 segments each need 25 MB.
const MaxFileSize = 32 << 20

const (
	maxNesting = 32  // brackets within brackets
	maxIndent  = 128 // columns before the first word of a line
	// maxWord bounds what stands between two of the characters that separate values, in quotes and
	// comments, too: a parser keeps several copies of a text.
	maxWord = 64 << 10

	// maxValues bounds the tree, of which each value takes some hundred octets. 65,536 flows
	// with 16 segments and four points each have half as many, a line each, which count twice.
	maxValues = 8 << 20
)

// Read returns the text of the file at path, or as much as [Parse] needs to refuse it.
func Read(path string) ([]byte, error) {
	data, err := inputfile.Read(path, MaxFileSize)
	if err != nil {
		return nil, fmt.Errorf("%w; name a configuration file that can be read", err)
	}
	return data, nil
}

// Parse reads a configuration; name stands for the file in errors. The error is Faults:
// all errors, in the file's order.
func Parse(name string, data []byte) (*Config, error) { return parse(name, data, nil) }

// ParseFor is Parse for a given host. It also reports interfaces that a strict file
// names and the host lacks, errors in files for TLS and of keys and, when the file itself is valid,
// what does not suit the host.
//
// The result does not know where in the file its values are: of many flows, that is more than
// their configuration, and the host has been asked.
func ParseFor(h Host, name string, data []byte) (*Config, error) {
	c, err := parse(name, data, func(d *decoder, c *Config) {
		if len(d.faults) == 0 {
			d.unsuited(c, h)
		} else {
			d.missing(c, h)
		}
		for _, f := range append(d.files(c), d.messageKeys(c)...) {
			d.faults = append(d.faults, f.fault)
		}
	})
	if err == nil {
		c.source = &source{file: name}
	}
	return c, err
}

// Check is Parse that also checks the files for TLS and of keys, as an agent does that starts.
// Those that this user may not read are reported separately, because the agent may; with
// elsewhere, the configuration is for another machine, and so are those that are not here.
func Check(name string, data []byte, elsewhere bool) (c *Config, unread Faults, err error) {
	c, err = parse(name, data, func(d *decoder, c *Config) {
		for _, f := range slices.Concat(d.files(c), d.keyFiles(c), d.messageKeys(c)) {
			if f.mayBeUsable(elsewhere) {
				unread = append(unread, f.fault)
			} else {
				d.faults = append(d.faults, f.fault)
			}
		}
	})
	return c, unread, err
}

// parse reads a configuration; look, unless nil, checks it against its surroundings.
func parse(name string, data []byte, look func(*decoder, *Config)) (*Config, error) {
	d := newDecoder(name)
	d.split = true
	c := &Config{}
	switch node := d.document(data); {
	case node == nil:
	case isTopology(node):
		d.fault(nodePosition(node), "", "this is a lab topology, not an agent's configuration",
			fmt.Sprintf("start it with 'waymark lab up %s', which checks it, its agents' configurations included", name))
	default:
		d.value(node, "", reflect.ValueOf(c).Elem())
		d.sections(d.lists, reflect.ValueOf(c).Elem())
		c.source = &d.source
		if d.full() {
			break
		}
		d.semantics(c)
		if look != nil {
			look(d, c)
		}
	}
	if err := d.faults.err(); err != nil {
		return nil, err
	}
	for i := range c.Sinks {
		c.Sinks[i].setDefaults(c.Node.ID)
	}
	return c, nil
}

// isTopology reports whether a file has a list of nodes, as topologies of labs do.
func isTopology(node ast.Node) bool {
	m, ok := node.(*ast.MappingNode)
	if !ok {
		return false
	}
	for _, pair := range m.Values {
		if _, list := pair.Value.(*ast.SequenceNode); list && pair.Key.GetToken().Value == "nodes" {
			return true
		}
	}
	return false
}

// decodeFragment reads one value of a configuration, such as a namespace that
// came through the API.
func decodeFragment(data []byte, v any) error {
	d := newDecoder("")
	if node := d.document(data); node != nil {
		d.value(node, "", reflect.ValueOf(v).Elem())
	}
	return d.faults.err()
}

// document parses the YAML text into its one value, nil after an error.
func (d *decoder) document(data []byte) ast.Node {
	start := position{1, 1}
	switch {
	case len(data) > MaxFileSize:
		d.fault(start, "", fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), "split the node's configuration, or remove what it does not need")
		return nil
	case !utf8.Valid(data):
		d.fault(invalidUTF8(data), "", "the file is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin UTF-8 with a byte order mark
	if at, found := longWord(data); found {
		d.fault(at, "", fmt.Sprintf("a text is longer than %d octets", maxWord), "no value of a configuration is that long: correct it")
		return nil
	}
	switch at, deep, many := exceeds(data); {
	case deep:
		d.fault(at, "", "values are nested too deep", "close the brackets that are open, or indent less")
		return nil
	case many:
		d.fault(at, "", fmt.Sprintf("the file has more than %d values", maxValues), "remove what the node does not need")
		return nil
	}
	if d.split && len(data) > largeFile {
		data, d.lists = splitLists(data, longLists(reflect.TypeFor[Config]()))
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err, data)
		return nil
	}
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType && doc.Body.Type() != ast.DirectiveType {
			docs = append(docs, doc.Body)
		}
	}
	switch len(docs) {
	case 0:
		d.fault(start, "", "the file is empty", "write at least: node: {}")
		return nil
	case 1:
		return docs[0]
	default:
		d.fault(nodePosition(docs[1]), "", "the file holds several documents", "keep one, without --- between")
		return nil
	}
}

// syntax reports an error in the YAML of a text.
func (d *decoder) syntax(err error, data []byte) {
	at, message := position{1, 1}, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		at, message = tokenPosition(syntax.GetToken()), syntax.GetMessage()
	}
	if strings.Contains(message, "'\t'") {
		d.fault(at, "", "this is not YAML: a tab is used where only spaces may be", "indent with spaces")
		return
	}
	cure := "correct the text here or in the line above"
	if address := colonAtEnd(data, at.line); address != "" {
		cure = fmt.Sprintf("put the address in quotes: %q", address)
	}
	if bareAddress(data, at.line) {
		cure += "; between brackets, put addresses with colons in quotes"
	}
	d.fault(at, "", "this is not YAML: "+message, cure)
}

// lineOf is a line of a text without its end, "" if there is no such line.
func lineOf(data []byte, line int) string {
	for ; line > 1; line-- {
		_, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return ""
		}
		data = rest
	}
	text, _, _ := bytes.Cut(data, []byte("\n"))
	return strings.TrimRight(string(text), "\r")
}

var (
	quoted       = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	addressInRow = regexp.MustCompile(`[\[{].*(\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]|::)`)
)

// bareAddress reports whether a line has an unquoted IPv6 address between brackets,
// where YAML takes its colons and brackets for its own.
func bareAddress(data []byte, line int) bool {
	return addressInRow.MatchString(quoted.ReplaceAllString(lineOf(data, line), "''"))
}

var addressBeforeEnd = regexp.MustCompile(`(?:^|[ \t])([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:)[ \t]*(?:#.*)?$`)

// colonAtEnd is an unquoted IPv6 address that ends a line with a colon, where YAML takes it for
// the key of a mapping; "" if the line ends otherwise.
func colonAtEnd(data []byte, line int) string {
	if m := addressBeforeEnd.FindStringSubmatch(quoted.ReplaceAllString(lineOf(data, line), "''")); m != nil {
		return m[1]
	}
	return ""
}

// longWord finds a text that is longer than any value.
func longWord(data []byte) (position, bool) {
	line, lineStart, start := 1, 0, 0
	for i, b := range data {
		switch b {
		case '\n':
			line, lineStart, start = line+1, i+1, i+1
		case ' ', ',', '[', ']', '{', '}':
			start = i + 1
		default:
			if i-start >= maxWord {
				return position{line, utf8.RuneCount(data[lineStart:start]) + 1}, true
			}
		}
	}
	return position{}, false
}

// exceeds finds nesting deeper, and values more than any configuration needs, before a
// recursive parser makes a tree of them. Brackets and commas in quotes and comments count too;
// no configuration has that many.
func exceeds(data []byte) (at position, deep, many bool) {
	depth, indenting, values := 0, true, 0
	at = position{1, 0}
	before := ' '
	for _, r := range string(data) {
		at.column++
		switch r { // what a value may begin after
		case '\n', ',', '[', '{':
			values++
		case ' ':
			if before == ':' || before == '-' || before == '?' {
				values++
			}
		}
		before = r
		if values > maxValues {
			return at, false, true
		}
		switch r {
		case '\n':
			at, indenting = position{at.line + 1, 0}, true
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		indenting = indenting && strings.ContainsRune(" \t-?:", r)
		if depth > maxNesting || indenting && at.column > maxIndent {
			return at, true, false
		}
	}
	return position{}, false, false
}

// invalidUTF8 is the place of the first byte that is not UTF-8.
func invalidUTF8(data []byte) position {
	at := position{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return at
		case r == '\n':
			at = position{at.line + 1, 1}
		default:
			at.column++
		}
		data = data[size:]
	}
	return at
}
