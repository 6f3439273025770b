// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Programs that write long lists use little of YAML. A piece is therefore first read as such text, in a
// tenth of the time that the general parser takes: block lists and mappings, flow lists and mappings in a
// line, words, and quoted text without escapes, all in ASCII and without comments. The tree has all that
// the decoder looks at. The general parser reads everything else, and reports what is wrong.

// plainList reads a piece that has nothing else; ok is false for every other text, also if it is wrong.
func plainList(text []byte) (list *ast.SequenceNode, ok bool) {
	p := &plainParser{text: string(text)}
	if !p.nextLine() {
		return nil, false
	}
	list, ok = p.blockList(p.indent)
	return list, ok && p.ended
}

// plainParser stands at the first character of a line that was not read yet, or within a line.
type plainParser struct {
	text   string
	at     int // octets before the place where it stands
	start  int // octets before the line
	line   int // from 1
	indent int // spaces before the line's text
	ended  bool

	tokens   arena[token.Token]
	places   arena[token.Position]
	words    arena[ast.StringNode]
	pairs    arena[ast.MappingValueNode]
	mappings arena[ast.MappingNode]
}

// arena allocates many values at a time.
type arena[T any] struct{ free []T }

func (a *arena[T]) take() *T {
	if len(a.free) == 0 {
		a.free = make([]T, 128)
	}
	v := &a.free[0]
	a.free = a.free[1:]
	return v
}

// nextLine goes to the next line that is not empty; false at the end of the text.
func (p *plainParser) nextLine() bool {
	for p.at < len(p.text) {
		p.line++
		p.start = p.at
		for p.peek() == ' ' {
			p.at++
		}
		if p.peek() != '\n' {
			p.indent = p.at - p.start
			return p.at < len(p.text)
		}
		p.at++
	}
	p.ended = true
	return false
}

// peek is the character where the parser stands, 0 at the end.
func (p *plainParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *plainParser) skipSpaces() {
	for p.peek() == ' ' {
		p.at++
	}
}

// atLineEnd reports whether the line ends here.
func (p *plainParser) atLineEnd() bool { return p.at == len(p.text) || p.text[p.at] == '\n' }

// endLine goes from the end of a value to the next line; false if there is anything else.
func (p *plainParser) endLine() bool {
	if !p.atLineEnd() {
		return false
	}
	p.at = min(p.at+1, len(p.text))
	p.nextLine()
	return true
}

// token has the place where the parser stands.
func (p *plainParser) token(kind token.Type, text string) *token.Token {
	t, place := p.tokens.take(), p.places.take()
	place.Line, place.Column = p.line, p.at-p.start+1
	t.Type, t.Value, t.Position = kind, text, place
	return t
}

// atItem reports whether a line begins an item of a list.
func (p *plainParser) atItem() bool {
	return strings.HasPrefix(p.text[p.at:], "- ")
}

// blockList reads items until a line with fewer spaces before its text.
func (p *plainParser) blockList(indent int) (*ast.SequenceNode, bool) {
	list := &ast.SequenceNode{Start: p.token(token.SequenceEntryType, "-")}
	for !p.ended && p.indent == indent {
		if !p.atItem() {
			return nil, false
		}
		p.at++
		p.skipSpaces()
		item, ok := p.blockValue()
		if !ok {
			return nil, false
		}
		list.Values = append(list.Values, item)
	}
	return list, p.ended || p.indent < indent
}

// blockValue reads what follows the hyphen of an item, with the lines that belong to it.
func (p *plainParser) blockValue() (ast.Node, bool) {
	if p.atKey() {
		return p.blockMapping(p.at - p.start)
	}
	v, ok := p.value(false)
	return v, ok && p.endLine()
}

// atKey reports whether a word with a colon comes next.
func (p *plainParser) atKey() bool {
	end := p.wordEnd()
	return end > p.at && end < len(p.text) && p.text[end] == ':'
}

// blockMapping reads the keys whose first character is at that column, the first of which may follow a hyphen.
func (p *plainParser) blockMapping(column int) (ast.Node, bool) {
	m := p.mappings.take()
	for {
		pair, ok := p.key()
		if !ok {
			return nil, false
		}
		if p.peek() == '\n' {
			p.at++
			if !p.nextLine() || p.indent <= column {
				return nil, false
			}
			switch {
			case p.atItem():
				pair.Value, ok = p.blockList(p.indent)
			case p.atKey():
				pair.Value, ok = p.blockMapping(p.indent)
			default:
				return nil, false
			}
			if !ok {
				return nil, false
			}
		} else if pair.Value, ok = p.value(false); !ok || !p.endLine() {
			return nil, false
		}
		if m.Values = append(m.Values, pair); m.Start == nil {
			m.Start = pair.Start
		}
		if p.ended || p.indent < column {
			return m, true
		}
		if p.indent > column {
			return nil, false
		}
	}
}

// key reads a key and its colon, to the value or the end of the line.
func (p *plainParser) key() (*ast.MappingValueNode, bool) {
	if !p.atKey() {
		return nil, false
	}
	name, ok := p.word().(*ast.StringNode)
	if !ok || strings.IndexByte(name.Value, ':') >= 0 {
		return nil, false
	}
	pair := p.pairs.take()
	pair.Key, pair.Start = name, name.Token
	p.at++
	if c := p.peek(); c != ' ' && c != '\n' {
		return nil, false
	}
	p.skipSpaces()
	return pair, true
}

// value reads a value that ends in its line.
func (p *plainParser) value(inFlow bool) (ast.Node, bool) {
	switch c := p.peek(); {
	case c == '[':
		return p.flowList()
	case c == '{':
		return p.flowMapping()
	case c == '"' || c == '\'':
		return p.quoted(c)
	default:
		end := p.wordEnd()
		if end == p.at {
			return nil, false
		}
		node := p.word()
		return node, node != nil && (p.atLineEnd() || inFlow && strings.IndexByte(",]}", p.peek()) >= 0)
	}
}

// wordEnd is where the word that comes next ends. It begins with a letter or a digit, and a colon in
// it is followed by another of its characters.
func (p *plainParser) wordEnd() int {
	i := p.at
	if i >= len(p.text) || !isAlphanumeric(p.text[i]) {
		return i
	}
	for i < len(p.text) && inWord(p.text[i]) {
		i++
	}
	for i > p.at && p.text[i-1] == ':' {
		i--
	}
	return i
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func inWord(c byte) bool {
	return isAlphanumeric(c) || c == '.' || c == '_' || c == '/' || c == ':' || c == '+' || c == '-' || c == '%'
}

// word reads a value without quotes: a number, a truth value or text. It is nil for others.
func (p *plainParser) word() ast.Node {
	end := p.wordEnd()
	text := p.text[p.at:end]
	t := p.token(token.StringType, text)
	p.at = end
	if c := text[0]; c > '9' && !reserved(text) {
		return p.string(t)
	}
	like := token.New(text, text, t.Position)
	t.Type = like.Type
	switch t.Type {
	case token.StringType:
		return p.string(t)
	case token.BoolType:
		return ast.Bool(t)
	case token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType:
		return ast.Integer(t)
	case token.FloatType:
		return ast.Float(t)
	default:
		return nil
	}
}

// reserved reports whether a word that begins with a letter may be more than text.
func reserved(text string) bool {
	return len(text) <= 5 && strings.IndexByte("tTfFnN", text[0]) >= 0
}

func (p *plainParser) string(t *token.Token) *ast.StringNode {
	n := p.words.take()
	n.Token, n.Value = t, t.Value
	return n
}

// quoted reads a text that ends in its line and has no escapes.
func (p *plainParser) quoted(quote byte) (ast.Node, bool) {
	kind := token.DoubleQuoteType
	if quote == '\'' {
		kind = token.SingleQuoteType
	}
	t := p.token(kind, "")
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == quote:
			t.Value = p.text[p.at+1 : i]
			p.at = i + 1
			return p.string(t), p.peek() != quote
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// flowList reads a list in brackets, which ends in its line. The general parser may take a colon in a
// word of it for the end of a key.
func (p *plainParser) flowList() (ast.Node, bool) {
	list := &ast.SequenceNode{Start: p.token(token.SequenceStartType, "["), IsFlowStyle: true}
	ok := p.entries(']', func() bool {
		if strings.IndexByte(p.text[p.at:p.wordEnd()], ':') >= 0 {
			return false
		}
		item, ok := p.value(true)
		list.Values = append(list.Values, item)
		return ok
	})
	return list, ok
}

// flowMapping reads a mapping in braces, which ends in its line.
func (p *plainParser) flowMapping() (ast.Node, bool) {
	m := p.mappings.take()
	m.Start, m.IsFlowStyle = p.token(token.MappingStartType, "{"), true
	ok := p.entries('}', func() bool {
		pair, ok := p.key()
		if !ok {
			return false
		}
		pair.Value, ok = p.value(true)
		m.Values = append(m.Values, pair)
		return ok
	})
	return m, ok
}

// entries reads what is between brackets, an entry at a time.
func (p *plainParser) entries(end byte, entry func() bool) bool {
	p.at++
	p.skipSpaces()
	if p.peek() == end {
		p.at++
		return true
	}
	for {
		if !entry() {
			return false
		}
		p.skipSpaces()
		switch p.peek() {
		case end:
			p.at++
			return true
		case ',':
			p.at++
			p.skipSpaces()
		default:
			return false
		}
	}
}
