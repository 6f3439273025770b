// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// selects is a warning, if the nodes of a flow have begun to select different packets, or select
// the same again.
func (f *comparedFlow) selects(r *loss.Result) *record.Warning {
	var ends []string
	for _, s := range append([]loss.Segment{r.Whole}, r.Segments...) {
		for _, e := range []loss.End{s.From, s.To} {
			if text := fmt.Sprintf("point %d: %s", e.Point, e.Difference); e.Difference != "" && !slices.Contains(ends, text) {
				ends = append(ends, text)
			}
		}
	}
	now := strings.Join(ends, "; ")
	if now == "" && r.Whole.Verdict == loss.NoData || now == f.unlike {
		return nil // nothing is known, or new
	}
	f.unlike = now
	if now == "" {
		return f.warns(health.SelectionsDiffer, false, "the nodes of flow "+f.name()+" select the same packets again", "")
	}
	w := health.SelectionDiffers(f.name(), ends, health.AtCollector)
	return f.warns(health.SelectionsDiffer, true, w.Text, w.Cure)
}
