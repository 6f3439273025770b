// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"fmt"
	"hash/fnv"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// selects is a warning, if the nodes of a flow have begun to select different packets, or select
// the same again. What a node said holds until it says something else.
func (b *blocks) selects(f *comparedFlow, r *loss.Result) *record.Warning {
	if loss.IsStale(r.Block, f.latest, int64(b.slots(r.Length))) {
		return nil
	}
	f.latest = r.Block
	changed, said := false, make(map[loss.PointID]string)
	for p, difference := range r.Selecting {
		if p > f.key.last || f.unlike == nil && difference == "" {
			continue
		}
		if f.unlike == nil {
			f.unlike = make([]uint64, f.key.last+1)
		}
		now := hashOf(difference)
		changed = changed || f.unlike[p] != now
		f.unlike[p], said[p] = now, difference
	}
	if !changed {
		return nil
	}
	var points []string
	for p, hash := range f.unlike {
		if hash != 0 {
			points = append(points, fmt.Sprintf("point %d: %s", p, cmp.Or(said[loss.PointID(p)], "as before; it has not reported this block")))
		}
	}
	if len(points) == 0 {
		f.unlike = nil
		return f.warns(health.SelectionsDiffer, false, "the nodes of flow "+f.name()+" select the same packets again", "")
	}
	w := health.SelectionDiffers(f.name(), points, health.AtCollector)
	return f.warns(health.SelectionsDiffer, true, w.Text, w.Cure)
}

// hashOf is a hash of a text, 0 of none.
func hashOf(text string) uint64 {
	if text == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64() | 1
}
