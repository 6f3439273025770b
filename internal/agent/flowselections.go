// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
)

// takeSelections notes which nodes of a flow did not select what this node selected in a block,
// and logs a change. A block without a report says nothing. The caller holds w.mu.
func (w *flowWatches) takeSelections(f *watchedFlow, r *loss.Result) {
	differences := make([]string, len(f.Points)+1)
	for _, s := range append([]loss.Segment{r.Whole}, r.Segments...) {
		for _, e := range []loss.End{s.From, s.To} {
			if int(e.Point) < len(differences) && e.Difference != "" {
				differences[e.Point] = f.point(e.Point) + ": " + e.Difference
			}
		}
	}
	now := slices.DeleteFunc(differences, func(d string) bool { return d == "" })
	if slices.Equal(now, f.unlike) || len(now) == 0 && r.Whole.Reasons()&loss.Missing != 0 {
		return
	}
	f.unlike = now
	switch {
	case w.logged > mostFlowWarnings:
	case w.logged == mostFlowWarnings:
		w.log.Warn("the warnings of further flows change in this block; list them with 'waymark loss'")
	case len(now) > 0:
		w.logWarning(f.selectionWarning())
	default:
		w.log.Info("all nodes select the same packets again", "warning", health.SelectionsDiffer, "flow", f.Name)
	}
	w.logged++
}

func (f *watchedFlow) selectionWarning() health.Warning {
	return health.SelectionDiffers(f.Name, f.unlike, health.AtIngress)
}

// unlike is how many flows have nodes that select different packets. The caller holds w.mu.
func (w *flowWatches) unlike() (n int) {
	for _, f := range w.flows {
		if len(f.unlike) > 0 {
			n++
		}
	}
	return n
}

// selectionWarnings are those of flows whose nodes select different packets, and of those of which
// that is not checked. The caller holds w.mu.
func (w *flowWatches) selectionWarnings() (ws []health.Warning) {
	var assumed []string
	for _, f := range w.flows {
		if len(f.unlike) > 0 && len(ws) < mostFlowWarnings {
			ws = append(ws, f.selectionWarning())
		}
		if f.AssumeSelection {
			assumed = append(assumed, f.Name)
		}
	}
	if n := w.unlike(); n > mostFlowWarnings {
		ws = append(ws, health.FurtherFlows(health.SelectionsDiffer, n-mostFlowWarnings))
	}
	if len(assumed) > 0 {
		ws = append(ws, health.SelectionAssumption(assumed))
	}
	return ws
}
