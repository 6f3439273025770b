// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"iter"
	"maps"
	"reflect"
	"strconv"
	"strings"
)

// Reader fills structs from a YAML tree and collects every error on the way.
type Reader struct {
	format  *Format
	source  Source
	faults  Faults
	faulty  map[string]bool // paths that have an error
	renamed []renamed       // keys with the name that they had before

	lists []section // that were taken out of a large file
	line  int       // of the file before the text that is being decoded
}

// NewReader reads one file; name stands for it in errors.
func (format *Format) NewReader(name string) *Reader {
	return &Reader{
		format: format,
		source: Source{file: name, at: map[string]Position{}, format: format},
		faulty: map[string]bool{},
	}
}

// Document parses the text of a file that is to fill dst, a pointer to a struct, into its one
// value; ok is false after an error.
func (r *Reader) Document(data []byte, dst any) (node Node, ok bool) {
	r.source.root = reflect.TypeOf(dst).Elem()
	n := r.document(data)
	return Node{n}, n != nil
}

// Decode fills dst with the value of its document.
func (r *Reader) Decode(node Node, dst any) {
	v := reflect.ValueOf(dst).Elem()
	r.value(node.node, "", v)
	r.sections(r.lists, v)
}

// Value fills what dst points to with the value at path. It does not change when the value is
// wrong.
func (r *Reader) Value(node Node, path string, dst any) {
	r.value(node.node, path, reflect.ValueOf(dst).Elem())
}

// Mapping fills the struct that dst points to with the keys of the mapping at path.
func (r *Reader) Mapping(node Node, path string, dst any) {
	r.mapping(node.node, node.Position(), path, reflect.ValueOf(dst).Elem())
}

// Source is where the file's values are.
func (r *Reader) Source() *Source { return &r.source }

// LineOf is the line of a place in the file. Places in a list that is read in pieces count from
// the beginning of the piece.
func (r *Reader) LineOf(at Position) int { return at.Line + r.line }

// Full reports whether no more errors are counted.
func (r *Reader) Full() bool { return len(r.faults) >= MostCounted }

// Sound reports whether there is no error.
func (r *Reader) Sound() bool { return len(r.faults) == 0 }

// Err is nil when there is no error, else Faults.
func (r *Reader) Err() error { return r.faults.Err() }

// Add adds errors that were found elsewhere.
func (r *Reader) Add(faults ...*Fault) { r.faults = append(r.faults, faults...) }

// Fault reports an error at a place in the file.
func (r *Reader) Fault(at Position, path, problem, cure string) {
	if r.Full() {
		return
	}
	r.faulty[path] = true
	f := newFault(r.source.file, path, problem, cure)
	f.Line, f.Column = r.LineOf(at), at.Column
	r.faults = append(r.faults, f)
}

// Refuse reports an error of the value at path by a rule of the file, unless it may be the
// consequence of one that was reported before.
func (r *Reader) Refuse(path, problem, cure string) {
	if !r.Full() && !r.FollowsFrom(path) {
		r.Add(r.source.Fault(path, Named(path)+": "+problem, cure))
	}
}

// Bad are the paths of which Fault has reported an error.
func (r *Reader) Bad() iter.Seq[string] { return maps.Keys(r.faulty) }

// FollowsFrom reports whether an error at path may be the consequence of one in the same value,
// in a part of it, or in what it is a part of.
func (r *Reader) FollowsFrom(path string) bool {
	for bad := range r.faulty {
		if bad == "" || Within(path, bad) || Within(bad, path) {
			return true
		}
	}
	return false
}

// Within reports whether the value at path is, or is part of, the one at outer.
func Within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Join extends a path by a key.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Item extends a path by the index of an item.
func Item(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// Named is how an error names the value at path.
func Named(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}
