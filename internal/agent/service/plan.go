// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/waymark-net/waymark/internal/datapath"

// Plan is a change of the state that is not in force yet.
type Plan struct {
	Before     *State          // nil at the start
	Next       *State          // resolved
	Generation datapath.Config // of the next state; services may change its encapsulations

	committed, abandoned []func()
}

// OnCommit adds what a service does once the plan is in force and the state is the next
// one.
func (p *Plan) OnCommit(do func()) { p.committed = append(p.committed, do) }

// OnAbandon adds how a service undoes what it prepared.
func (p *Plan) OnAbandon(do func()) { p.abandoned = append(p.abandoned, do) }

// Commit tells the services that the plan is in force.
func (p *Plan) Commit() { callAll(p.committed) }

// Abandon undoes what the services prepared.
func (p *Plan) Abandon() { callAll(p.abandoned) }

func callAll(list []func()) {
	for _, do := range list {
		do()
	}
}
