// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/waymark-net/waymark/internal/model"
)

// A YAML tree takes about fifty times the memory of its text. Long lists of a large file are
// therefore read piece by piece: lists in block style, at the top of the file, whose items are
// mappings. All other text is read as a whole.
var (
	largeFile = 1 << 20
	// pieceSize is how much text of a list becomes a tree at a time.
	pieceSize = 64 << 10
)

// mostItems bounds the lists of which a file may have very many items.
var mostItems = map[string]int{
	"interfaces": model.MaxInterfaces, "namespaces": model.MaxNamespaces, "encapsulations": model.MaxEncapsulations,
	"decapsulations": model.MaxDecapsulations, "flows": model.MaxMeasuredFlows,
}

// piece is some items of a list.
type piece struct {
	text  []byte // whole lines of the file
	line  int    // of the file before the first of them
	first int    // index of the first item
}

// section is a list that is read in pieces.
type section struct {
	key    string
	pieces []piece
	items  int
}

// splitLists takes the lists of those keys out of a file. The rest has empty lines instead, so
// that it keeps its numbers of lines.
func splitLists(data []byte, isList func(key string) bool) (rest []byte, lists []section) {
	rest = make([]byte, 0, min(len(data), largeFile))
	var open *section
	var at *piece
	indent, number := 0, 0
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		line := data[:end]
		number++
		kind, depth := lineKind(line)
		switch {
		case open != nil && at == nil && kind == itemLine:
			indent, at = depth, open.begin(data[:0], number-1)
			open.items++
		case open != nil && at != nil && kind == itemLine && depth == indent:
			if len(at.text) >= pieceSize {
				at = open.begin(data[:0], number-1)
			}
			open.items++
		case open != nil && (kind == emptyLine || at != nil && depth > indent):
		default:
			open, at = nil, nil
		}
		if open == nil {
			rest = append(rest, line...)
			if key := listKey(line); key != "" && isList(key) && !slices.ContainsFunc(lists, func(s section) bool { return s.key == key }) {
				lists = append(lists, section{key: key})
				open = &lists[len(lists)-1]
			}
		} else {
			rest = append(rest, '\n')
			if at != nil {
				at.text = at.text[:len(at.text)+end]
			}
		}
		data = data[end:]
	}
	return rest, slices.DeleteFunc(lists, func(s section) bool { return s.items == 0 })
}

// begin adds a piece that begins with a text of no length, which grows in place.
func (s *section) begin(text []byte, line int) *piece {
	s.pieces = append(s.pieces, piece{text: text, line: line, first: s.items})
	return &s.pieces[len(s.pieces)-1]
}

type lineType int

const (
	otherLine lineType = iota
	itemLine           // begins an item of a list
	emptyLine          // or a comment
)

// lineKind is what a line is, and the column at which its text begins.
func lineKind(line []byte) (lineType, int) {
	text := bytes.TrimLeft(line, " ")
	depth := len(line) - len(text)
	text = bytes.TrimRight(text, " \r\n")
	switch {
	case len(text) == 0 || text[0] == '#':
		return emptyLine, depth
	case text[0] == '-' && (len(text) == 1 || text[1] == ' '):
		return itemLine, depth
	}
	return otherLine, depth
}

// listKey is the key of a line at the left margin that has nothing else, "" for other lines.
func listKey(line []byte) string {
	key, after, ok := strings.Cut(string(line[:min(len(line), 200)]), ":")
	if after = strings.TrimSpace(after); !ok || after != "" && after[0] != '#' {
		return ""
	}
	return key
}

// tree parses the items of a piece, which are indented as in the file.
func (p *piece) tree() (*ast.SequenceNode, error) {
	file, err := parser.ParseBytes(p.text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	if len(file.Docs) == 1 {
		if list, ok := file.Docs[0].Body.(*ast.SequenceNode); ok {
			return list, nil
		}
	}
	return nil, fmt.Errorf("line %d does not begin a list", p.line+1)
}

// longLists are the keys of the file whose values are lists of mappings.
func longLists(t reflect.Type) func(string) bool {
	return func(key string) bool {
		i := slices.IndexFunc(fields(t), func(f field) bool { return f.key == key })
		if i < 0 {
			return false
		}
		kind := t.FieldByIndex(fields(t)[i].index).Type
		return kind.Kind() == reflect.Slice && !hasCodec(kind) && !hasCodec(kind.Elem())
	}
}

// sections decodes the lists that were taken out of the file.
func (d *decoder) sections(lists []section, config reflect.Value) {
	for _, s := range lists {
		i := slices.IndexFunc(fields(config.Type()), func(f field) bool { return f.key == s.key })
		items := s.items
		if most, ok := mostItems[s.key]; ok && items > most {
			d.fault(position{s.pieces[0].line, 1}, s.key, fmt.Sprintf("%s: %d %s", s.key, items, s.key), fmt.Sprintf("use at most %d", most))
			items = most
		}
		list := reflect.MakeSlice(config.FieldByIndex(fields(config.Type())[i].index).Type(), items, items)
		for k := range s.pieces {
			if s.pieces[k].first >= items {
				break
			}
			if d.full() || !d.piece(s.key, &s.pieces[k], list) {
				return
			}
		}
		config.FieldByIndex(fields(config.Type())[i].index).Set(list)
	}
	d.source.lists = lists
}

// piece decodes the items of a piece. It reports false after an error in YAML.
func (d *decoder) piece(key string, p *piece, list reflect.Value) bool {
	kept := d.source.at
	d.source.at, d.line = make(map[string]position), p.line
	defer func() { d.source.at, d.line = kept, 0 }()
	tree, err := p.tree()
	if err != nil {
		d.syntax(err, p.text)
		return false
	}
	for i, item := range tree.Values {
		if d.full() || p.first+i >= list.Len() {
			break
		}
		d.value(item, fmt.Sprintf("%s[%d]", key, p.first+i), list.Index(p.first+i))
	}
	return true
}

// inPiece finds the place of a value in a list that was read in pieces, and reads that piece again.
func (s *source) inPiece(path string) (position, bool) {
	key, rest, _ := strings.Cut(path, "[")
	number, _, _ := strings.Cut(rest, "]")
	index, err := strconv.Atoi(number)
	i := slices.IndexFunc(s.lists, func(one section) bool { return one.key == key })
	if i < 0 || err != nil {
		return position{}, false
	}
	pieces := s.lists[i].pieces
	k, _ := slices.BinarySearchFunc(pieces, index, func(p piece, index int) int {
		if p.first <= index {
			return -1
		}
		return 1
	})
	if k == 0 {
		return position{}, false
	}
	if p := &pieces[k-1]; s.read != p {
		again := newDecoder(s.file)
		tree, err := p.tree()
		if err != nil {
			return position{}, false
		}
		for n, item := range tree.Values {
			again.value(item, fmt.Sprintf("%s[%d]", key, p.first+n), reflect.New(s.itemOf(key)).Elem())
		}
		s.read, s.inRead = p, &again.source
	}
	at, ok := s.inRead.locate(path)
	at.line += s.read.line
	return at, ok
}

// itemOf is the type of the items of a list.
func (s *source) itemOf(key string) reflect.Type {
	t := reflect.TypeFor[Config]()
	i := slices.IndexFunc(fields(t), func(f field) bool { return f.key == key })
	return t.FieldByIndex(fields(t)[i].index).Type.Elem()
}
