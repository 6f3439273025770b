// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// Known is what a program can have records of. A list that is nil is not known.
type Known struct {
	Where      string // "here", or "in a capture"
	Kinds      []string
	Namespaces []ioam.NamespaceID
	Interfaces []string
	Nodes      []string
	Flows      []string
}

// Unmet says which parts of a filter no record can meet, each with what there is.
func (k *Known) Unmet(f Filter) (notes []string) {
	if f.Kinds != "" && k.Kinds != nil {
		wanted := strings.Split(f.Kinds, ",")
		if !slices.ContainsFunc(wanted, func(kind string) bool { return slices.Contains(k.Kinds, kind) }) {
			notes = append(
				notes,
				fmt.Sprintf("no record of the kind %s is made %s; there are %s", strings.Join(wanted, " or "), k.Where, strings.Join(k.Kinds, ", ")),
			)
		}
	}
	if f.Namespace != nil && k.Namespaces != nil && !slices.Contains(k.Namespaces, *f.Namespace) {
		notes = append(
			notes,
			fmt.Sprintf("namespace %d is not configured %s, so no record has it; configured: %s", *f.Namespace, k.Where, listed(k.Namespaces)),
		)
	}
	_, isNumber := number(f.Node)
	if f.Node != "" && !isNumber && k.Nodes != nil && !slices.Contains(k.Nodes, f.Node) {
		notes = append(notes, fmt.Sprintf("node %s is not configured %s, so no record has it; configured: %s", f.Node, k.Where, listed(k.Nodes)))
	}
	_, isNumber = number(f.Interface)
	if f.Interface != "" && !isNumber && k.Interfaces != nil && !slices.Contains(k.Interfaces, f.Interface) {
		notes = append(
			notes,
			fmt.Sprintf("interface %s is not configured %s, so no record has it; configured: %s", f.Interface, k.Where, listed(k.Interfaces)),
		)
	}
	_, isNumber = number(f.Flow)
	if f.Flow != "" && !isNumber && k.Flows != nil && !slices.Contains(k.Flows, f.Flow) {
		notes = append(notes, fmt.Sprintf("flow %s is not configured %s, so no record has it; configured: %s", f.Flow, k.Where, listed(k.Flows)))
	}
	return notes
}

func listed[V any](values []V) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprint(v))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}
