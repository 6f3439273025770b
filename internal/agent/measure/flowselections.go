// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
)

// waitingBlocks is how many blocks of a flow wait for other nodes' answers.
const waitingBlocks = 4

// takeSelections notes which nodes of a flow did not select what this node selected in a block,
// and logs a change. What a node said holds until it says something else. The caller holds w.mu.
func (w *flowWatches) takeSelections(f *watchedFlow, r *loss.Result) {
	if loss.IsStale(r.Block, f.latest, waitingBlocks) {
		return
	}
	f.latest = r.Block
	changed := false
	for p, difference := range r.Selecting {
		if int(p) > len(f.Points) || f.selectionDifferences == nil && difference == "" {
			continue
		}
		if f.selectionDifferences == nil {
			f.selectionDifferences = make([]string, len(f.Points)+1)
		}
		changed = changed || f.selectionDifferences[p] != difference
		f.selectionDifferences[p] = difference
	}
	if !changed {
		return
	}
	if !slices.ContainsFunc(f.selectionDifferences, func(d string) bool { return d != "" }) {
		f.selectionDifferences = nil
	}
	switch {
	case w.logged > mostFlowWarnings:
	case w.logged == mostFlowWarnings:
		w.d.Log.Warn("the warnings of further flows change in this block; list them with 'waymark loss'")
	case f.selectionDifferences != nil:
		service.LogWarning(w.d.Log, f.selectionWarning())
	default:
		w.d.Log.Info("all nodes select the same packets again", "warning", health.SelectionsDiffer, "flow", f.Name)
	}
	w.logged++
}

func (f *watchedFlow) selectionWarning() health.Warning {
	var nodes []string
	for p, difference := range f.selectionDifferences {
		if difference != "" {
			nodes = append(nodes, f.point(loss.PointID(p))+": "+difference)
		}
	}
	return health.SelectionDiffers(f.Name, nodes, health.AtIngress)
}

// countSelectionDifferences is how many flows have nodes that select different packets. The caller holds w.mu.
func (w *flowWatches) countSelectionDifferences() (n int) {
	for _, f := range w.flows {
		if f.selectionDifferences != nil {
			n++
		}
	}
	return n
}

// selectionWarnings are about flows whose nodes select different packets, and about flows whose
// selections are not compared. The caller holds w.mu.
func (w *flowWatches) selectionWarnings() (ws []health.Warning) {
	var assumed []string
	for _, f := range w.flows {
		if f.selectionDifferences != nil && len(ws) < mostFlowWarnings {
			ws = append(ws, f.selectionWarning())
		}
		if f.AssumeSelection {
			assumed = append(assumed, f.Name)
		}
	}
	if n := w.countSelectionDifferences(); n > mostFlowWarnings {
		ws = append(ws, health.FurtherFlows(health.SelectionsDiffer, n-mostFlowWarnings))
	}
	if len(assumed) > 0 {
		ws = append(ws, health.SelectionAssumption(assumed))
	}
	return ws
}
