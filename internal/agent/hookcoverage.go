// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/hookwatch"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// hookCoverage makes blocks of measured flows uncertain, and reports about postcards incomplete,
// while packets may have passed a hook without the program.
type hookCoverage struct {
	*core
	lasting map[hookGap]string // names of interfaces
}

// hookGap is a gap that lasts: each cause at each hook ends for itself.
type hookGap struct {
	hookwatch.Key
	hookwatch.Cause
}

func newHookCoverage(c *core) *hookCoverage {
	return &hookCoverage{core: c, lasting: make(map[hookGap]string)}
}

// recordGap is called with a gap when it becomes known, and again when it has ended.
func (h *hookCoverage) recordGap(g hookwatch.Gap) {
	which := hookGap{g.Key, g.Cause}
	source := directionOf(g.Ingress) + " " + string(g.Cause)
	if g.Until.IsZero() {
		name := h.nameOf(g.Index)
		h.lasting[which] = name
		h.datapath.Coverage().
			Begin(coverage.Gap{Interface: name, Source: source, Ways: coverage.Both, Why: loss.NotExecuted, From: g.Since.UnixNano()})
		return
	}
	if name, ok := h.lasting[which]; ok {
		delete(h.lasting, which)
		h.datapath.Coverage().End(name, source, loss.NotExecuted, g.Until.UnixNano())
	}
}

func (h *hookCoverage) nameOf(index model.IfIndex) string {
	for _, i := range h.state.Load().Resolved.Node.Interfaces {
		if i.Index == index {
			return i.Name
		}
	}
	return ""
}
