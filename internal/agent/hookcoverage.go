// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/hookwatch"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// hookCoverage makes blocks of measured flows uncertain while packets may have passed a hook
// without the program.
type hookCoverage struct {
	*core
	lasting map[hookwatch.Key]string // names of interfaces
}

// note takes a gap when it becomes known, and again when it has ended.
func (h *hookCoverage) note(g hookwatch.Gap) {
	if g.Until.IsZero() {
		name := h.nameOf(g.Index)
		h.lasting[g.Key] = name
		h.datapath.Coverage().Begin(coverage.Gap{Interface: name, Ways: coverage.Both, Why: loss.NotExecuted, From: g.Since.UnixNano()})
		return
	}
	name, ok := h.lasting[g.Key]
	if !ok {
		return
	}
	delete(h.lasting, g.Key)
	other := g.Key
	other.Ingress = !other.Ingress
	if _, lasts := h.lasting[other]; !lasts {
		h.datapath.Coverage().End(name, loss.NotExecuted, g.Until.UnixNano())
	}
}

func (h *hookCoverage) nameOf(index model.IfIndex) string {
	for _, i := range h.state.Load().resolved.Node.Interfaces {
		if i.Index == index {
			return i.Name
		}
	}
	return ""
}
