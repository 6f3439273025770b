// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A YAML tree takes about fifty times the memory of its text. Long lists of a large file are
// therefore read piece by piece: lists in block style, at the top of the file, whose items are
// mappings. All other text is read as a whole.

// Pieces says when lists are read in pieces, and how large these are.
type Pieces struct {
	Larger int // octets of a file that is still read as a whole
	Size   int // octets of a list's text that become a tree at a time
}

var usualPieces = Pieces{Larger: 1 << 20, Size: 64 << 10}

func (format *Format) inPieces() Pieces {
	if format.Pieces != (Pieces{}) {
		return format.Pieces
	}
	return usualPieces
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
func (format *Format) splitLists(data []byte, isList func(key string) bool) (rest []byte, lists []section) {
	size := format.inPieces()
	rest = make([]byte, 0, min(len(data), size.Larger))
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
			if len(at.text) >= size.Size {
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

// parsedPiece is the tree of a piece, or why there is none.
type parsedPiece struct {
	tree *ast.SequenceNode
	err  error
}

// parseAhead parses pieces in their order, one on each CPU at a time: parsing takes most of the
// time of reading a large file.
func parseAhead(pieces []piece) iter.Seq2[*piece, parsedPiece] {
	return func(yield func(*piece, parsedPiece) bool) {
		begun, done := make(chan chan parsedPiece, runtime.GOMAXPROCS(0)-1), make(chan struct{})
		defer close(done)
		go func() {
			defer close(begun)
			for k := range pieces {
				result := make(chan parsedPiece, 1)
				select {
				case begun <- result:
				case <-done:
					return
				}
				go func() {
					tree, err := pieces[k].tree()
					result <- parsedPiece{tree, err}
				}()
			}
		}()
		next := 0
		for result := range begun {
			if !yield(&pieces[next], <-result) {
				return
			}
			next++
		}
	}
}

// longLists are the keys of the file whose values are lists of mappings.
func (format *Format) longLists(t reflect.Type) func(string) bool {
	return func(key string) bool {
		i := slices.IndexFunc(Fields(t), func(f Field) bool { return f.Key == key })
		if i < 0 {
			return false
		}
		kind := t.FieldByIndex(Fields(t)[i].Index).Type
		return kind.Kind() == reflect.Slice && !format.isScalar(kind) && !format.isScalar(kind.Elem())
	}
}

// sections decodes the lists that were taken out of the file.
func (r *Reader) sections(lists []section, file reflect.Value) {
	for _, s := range lists {
		i := slices.IndexFunc(Fields(file.Type()), func(f Field) bool { return f.Key == s.key })
		items := s.items
		if most, ok := r.format.MostItems[s.key]; ok && items > most {
			r.Fault(Position{s.pieces[0].line, 1}, s.key, fmt.Sprintf("%s: %d %s", s.key, items, s.key), fmt.Sprintf("use at most %d", most))
			items = most
		}
		list := reflect.MakeSlice(file.FieldByIndex(Fields(file.Type())[i].Index).Type(), items, items)
		for p, parsed := range parseAhead(s.pieces) {
			if p.first >= items {
				break
			}
			if r.Full() || !r.piece(s.key, p, parsed, list) {
				return
			}
		}
		file.FieldByIndex(Fields(file.Type())[i].Index).Set(list)
	}
	r.source.lists = lists
}

// piece decodes the items of a piece. It reports false after an error in YAML.
func (r *Reader) piece(key string, p *piece, parsed parsedPiece, list reflect.Value) bool {
	kept := r.source.at
	r.source.at, r.line = make(map[string]Position), p.line
	defer func() { r.source.at, r.line = kept, 0 }()
	if parsed.err != nil {
		r.syntax(parsed.err, p.text)
		return false
	}
	for i, item := range parsed.tree.Values {
		if r.Full() || p.first+i >= list.Len() {
			break
		}
		r.value(item, Item(key, p.first+i), list.Index(p.first+i))
	}
	return true
}

// inPiece finds the place of a value in a list that was read in pieces, and reads that piece again.
func (s *Source) inPiece(path string) (Position, bool) {
	key, rest, _ := strings.Cut(path, "[")
	number, _, _ := strings.Cut(rest, "]")
	index, err := strconv.Atoi(number)
	i := slices.IndexFunc(s.lists, func(one section) bool { return one.key == key })
	if i < 0 || err != nil {
		return Position{}, false
	}
	pieces := s.lists[i].pieces
	k, _ := slices.BinarySearchFunc(pieces, index, func(p piece, index int) int {
		if p.first <= index {
			return -1
		}
		return 1
	})
	if k == 0 {
		return Position{}, false
	}
	if p := &pieces[k-1]; s.read != p {
		again := s.format.NewReader(s.file)
		tree, err := p.tree()
		if err != nil {
			return Position{}, false
		}
		for n, item := range tree.Values {
			again.value(item, Item(key, p.first+n), reflect.New(s.itemOf(key)).Elem())
		}
		s.read, s.inRead = p, &again.source
	}
	at, ok := s.inRead.locate(path)
	at.Line += s.read.line
	return at, ok
}

// itemOf is the type of the items of a list.
func (s *Source) itemOf(key string) reflect.Type {
	t := s.root
	i := slices.IndexFunc(Fields(t), func(f Field) bool { return f.Key == key })
	return t.FieldByIndex(Fields(t)[i].Index).Type.Elem()
}

// Pieces is in how many pieces a list was read; 0: with the rest of the file.
func (s *Source) Pieces(key string) int {
	for _, list := range s.lists {
		if list.key == key {
			return len(list.pieces)
		}
	}
	return 0
}

// NewSource is a source that knows the file, and not where its values are.
func NewSource(file string) *Source { return &Source{file: file} }
