// SPDX-License-Identifier: Apache-2.0

// Package yamlfile reads files in YAML strictly, whatever they describe: unknown keys, keys that
// appear twice, values of the wrong type and all that a file's own rules refuse are reported at
// once, each with its line, its column and a cure. It also writes such files, their values in
// JSON, and their reference.
//
// A file is a struct whose tags say all of its keys:
//
//	key      the key in the file
//	default  the value of an absent key, as it would be written
//	was      the key that it was before; it is still read
//	optional without the key, the file means what no value expresses: any, or (true) what its text says
//	required the key must be present
//	of       of an inner struct: its keys are those of the outer one, for this value of the key kind
//
// What keys mean is in [KeyTexts], from which the reference is made.
//
// What is no struct, list or pointer is a scalar, and has a [Codec] in the file's [Format].
package yamlfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// Format is a type of file: its scalars, and what it says about itself.
type Format struct {
	// Scalars are the types of single values.
	Scalars Scalars
	// MostItems bounds the lists at the top of the file of which it may have very many items.
	MostItems map[string]int

	TooLarge string // the cure of a file that is larger than MaxFileSize
	TooMany  string // the cure of one that has more than MaxValues
	Empty    string // the cure of one without any value
	Migrate  string // the command that renames keys in the file %s; "" if there is none

	// Pieces are for tests, which need no large files then. Without them, they are as usual.
	Pieces Pieces
}

// Parse reads a file into dst, a pointer to a struct; name stands for the file in errors. The
// error is Faults: all errors, in the file's order. check, unless nil, adds those that the struct
// cannot say, unless the file has too many errors already.
func (format *Format) Parse(name string, data []byte, dst any, check func(*Reader)) error {
	r := format.NewReader(name)
	if node, ok := r.Document(data, dst); ok {
		if r.Decode(node, dst); check != nil && !r.Full() {
			check(r)
		}
	}
	return r.Err()
}

// Fragment reads one value, such as a part of a file that came through an API.
func (format *Format) Fragment(data []byte, dst any) error {
	r := format.NewReader("")
	if node := r.document(data); node != nil {
		r.value(node, "", reflect.ValueOf(dst).Elem())
	}
	return r.Err()
}

func (format *Format) isScalar(t reflect.Type) bool {
	_, ok := format.Scalars[t]
	return ok
}

// Node is a value in a file.
type Node struct{ node ast.Node }

// Position is where it begins.
func (n Node) Position() Position { return nodePosition(n.node) }

// Text is a scalar as it was written, without quotes; "" for other values.
func (n Node) Text() string {
	text, _ := scalarText(n.node)
	return text
}

// Describe names its kind and value for an error.
func (n Node) Describe() string { return describe(n.node) }

// IsList reports whether it is a list.
func (n Node) IsList() bool { return n.node.Type() == ast.SequenceType }

// Pair is a key of a mapping, and its value.
type Pair struct{ Key, Value Node }

// Pairs are the keys and values of a mapping; ok is false for other values than mappings and
// empty ones.
func (n Node) Pairs() (list []Pair, ok bool) {
	pairs, ok := pairsOf(n.node)
	for _, p := range pairs {
		list = append(list, Pair{Node{p.Key}, Node{p.Value}})
	}
	return list, ok
}
