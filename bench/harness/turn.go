// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"slices"
)

// Turn is a group of variants that are compared with the same ones.
type Turn []*Variant

// turns groups the variants of an experiment, in their order.
func (e Experiment) turns() []Turn {
	type others struct{ against, plain *Variant }
	var list []Turn
	open := make(map[others]int) // index of the turn that has room
	for _, v := range e.Variants {
		key := others{v.Against, v.Plain}
		if i, ok := open[key]; ok && len(list[i]) < e.Together {
			list[i] = append(list[i], v)
			continue
		}
		open[key] = len(list)
		list = append(list, Turn{v})
	}
	return list
}

// Members are the variants measured in a turn, including those that others are
// compared with.
func (t Turn) Members() (list []*Variant) {
	add := func(v *Variant) {
		if v != nil && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	for _, other := range []*Variant{t[0].Against, t[0].Plain} {
		add(other)
		if other != nil {
			add(other.Rival)
		}
	}
	for _, v := range t {
		add(v.Bare)
		add(v)
	}
	return list
}

// turnNames are the names of all turns of a round.
func (e Experiment) turnNames() (names []string) {
	for _, t := range e.turns() {
		names = append(names, t.name())
	}
	return names
}

// Bursts is the number of measurements in a round.
func (e Experiment) Bursts() (n int) {
	for _, t := range e.turns() {
		n += len(t.Members())
	}
	return n
}

// name tells a turn from the others.
func (t Turn) name() string { return fmt.Sprintf("%s at %v", t[0].Is, t[0].X) }
