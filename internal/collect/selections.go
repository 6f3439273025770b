// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"hash/fnv"
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
	now := uint64(0)
	if len(ends) > 0 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(strings.Join(ends, "; ")))
		now = h.Sum64() | 1
	}
	if now == 0 && r.Whole.Verdict == loss.NoData || now == f.unlike {
		return nil // nothing is known, or new
	}
	f.unlike = now
	if now == 0 {
		return f.warns(health.SelectionsDiffer, false, "the nodes of flow "+f.name()+" select the same packets again", "")
	}
	w := health.SelectionDiffers(f.name(), ends, health.AtCollector)
	return f.warns(health.SelectionsDiffer, true, w.Text, w.Cure)
}
