// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"maps"
	"slices"
)

// Names are the fields of a record that the expression reads, in order: the first names only, such as nodes of
// nodes[0].node. A source of records that lack one of them can say so.
func (p *Program) Names() []string {
	if p.where == nil {
		return nil
	}
	all := environment()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.where.fields)), func(name string) bool {
		_, is := all[name]
		return !is // it is a function
	})
}
