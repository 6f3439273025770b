// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// FromMapping is what may be, or is, written as a mapping that is no struct.
type FromMapping interface {
	// FromMapping reads a value, which is a mapping if the type is a scalar, too.
	FromMapping(r *Reader, node Node, path string)
}

// AsMapping is what may have to be written as a mapping.
type AsMapping interface{ AsMapping() (t *Tree, needed bool) }

// Documented says what a key's value is, and which struct has its keys, if any.
type Documented interface {
	Document() (text string, keys reflect.Type)
}

func isMapping(node ast.Node) bool {
	return node.Type() == ast.MappingType || node.Type() == ast.MappingValueType
}

// pairsOf are the keys and values of a mapping; ok is false for other values than mappings
// and empty ones.
func pairsOf(node ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	case *ast.NullNode:
		return nil, true
	}
	return nil, false
}
