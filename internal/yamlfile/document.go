// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/problem"
)

// MaxFileSize bounds a file in bytes. A node with 65,536 measured flows of 16 segments each needs 25 MB.
const MaxFileSize = 32 << 20

const (
	maxNesting = 32  // brackets within brackets
	maxIndent  = 128 // columns before the first word of a line
	// maxWord bounds what stands between two of the characters that separate values, in quotes and
	// comments, too: a parser keeps several copies of a text.
	maxWord = 64 << 10

	// MaxValues bounds the tree, of which each value takes some hundred octets. 65,536 flows
	// with 16 segments and four points each have half as many, a line each, which count twice.
	MaxValues = 8 << 20
)

var (
	byteOrderMark = []byte("\ufeff")
	crlf          = []byte("\r\n")
)

// Read returns the text of the file at path, or as much as [Format.Parse] needs to refuse it.
func Read(path string) ([]byte, error) {
	data, err := inputfile.Read(path, MaxFileSize)
	if err != nil {
		return nil, problem.Wrap(err, "name a configuration file that can be read")
	}
	return data, nil
}

// document parses the YAML text into its one value, nil after an error.
func (r *Reader) document(data []byte) ast.Node {
	start := Position{1, 1}
	switch {
	case len(data) > MaxFileSize:
		r.Fault(start, "", fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), r.format.TooLarge)
		return nil
	case !utf8.Valid(data):
		r.Fault(invalidUTF8(data), "", "the file is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, byteOrderMark) // some editors begin UTF-8 with a byte order mark
	if bytes.Contains(data, crlf) {              // which the parser counts as two lines after a comment
		data = bytes.ReplaceAll(data, crlf, []byte("\n"))
	}
	if at, found := longWord(data); found {
		r.Fault(at, "", fmt.Sprintf("a text is longer than %d octets", maxWord), "no value of a configuration is that long: correct it")
		return nil
	}
	switch at, deep, many := exceeds(data); {
	case deep:
		r.Fault(at, "", "values are nested too deep", "close the brackets that are open, or indent less")
		return nil
	case many:
		r.Fault(at, "", fmt.Sprintf("the file has more than %d values", MaxValues), r.format.TooMany)
		return nil
	}
	if r.source.root != nil && len(data) > r.format.inPieces().Larger {
		data, r.lists = r.format.splitLists(data, r.format.longLists(r.source.root))
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err, data)
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
		r.Fault(start, "", "the file is empty", r.format.Empty)
		return nil
	case 1:
		return docs[0]
	default:
		r.Fault(nodePosition(docs[1]), "", "the file holds several documents", "keep one, without --- between")
		return nil
	}
}

// syntax reports an error in the YAML of a text.
func (r *Reader) syntax(err error, data []byte) {
	at, message := Position{1, 1}, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		at, message = tokenPosition(syntax.GetToken()), syntax.GetMessage()
	}
	if strings.Contains(message, "'\t'") {
		r.Fault(at, "", "this is not YAML: a tab is used where only spaces may be", "indent with spaces")
		return
	}
	cure := "correct the text here or in the line above"
	if address := colonAtEnd(data, at.Line); address != "" {
		cure = fmt.Sprintf("put the address in quotes: %q", address)
	}
	if bareAddress(data, at.Line) {
		cure += "; between brackets, put addresses with colons in quotes"
	}
	r.Fault(at, "", "this is not YAML: "+message, cure)
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
func longWord(data []byte) (Position, bool) {
	line, lineStart, start := 1, 0, 0
	for i, b := range data {
		switch b {
		case '\n':
			line, lineStart, start = line+1, i+1, i+1
		case ' ', ',', '[', ']', '{', '}':
			start = i + 1
		default:
			if i-start >= maxWord {
				return Position{line, utf8.RuneCount(data[lineStart:start]) + 1}, true
			}
		}
	}
	return Position{}, false
}

// exceeds finds nesting deeper, and values more than any configuration needs, before a
// recursive parser makes a tree of them. Brackets and commas in quotes and comments count too;
// no configuration has that many.
func exceeds(data []byte) (at Position, deep, many bool) {
	depth, indenting, values := 0, true, 0
	at = Position{1, 0}
	before := ' '
	for _, r := range string(data) {
		at.Column++
		switch r { // what a value may begin after
		case '\n', ',', '[', '{':
			values++
		case ' ':
			if before == ':' || before == '-' || before == '?' {
				values++
			}
		}
		before = r
		if values > MaxValues {
			return at, false, true
		}
		switch r {
		case '\n':
			at, indenting = Position{at.Line + 1, 0}, true
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		indenting = indenting && strings.ContainsRune(" \t-?:", r)
		if depth > maxNesting || indenting && at.Column > maxIndent {
			return at, true, false
		}
	}
	return Position{}, false, false
}

// invalidUTF8 is the place of the first byte that is not UTF-8.
func invalidUTF8(data []byte) Position {
	at := Position{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return at
		case r == '\n':
			at = Position{at.Line + 1, 1}
		default:
			at.Column++
		}
		data = data[size:]
	}
	return at
}
