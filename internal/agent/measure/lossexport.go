// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// exportBatch is how many records are offered at once.
const exportBatch = 256

// export reports what this node counted in a block, for a collector that compares it with
// what other nodes counted.
func (m *LossMeter) export(b *closedBlock) {
	ids, clock, now := flowIDs(b.measurement.Flows), clockError(m.d.System, b.measurement), instant.Of(time.Now())
	list := make([]record.Record, 0, exportBatch)
	for i := range b.measurement.Flows {
		f := &b.measurement.Flows[i]
		c, known := b.counts[f.Name]
		if c.Reported || b.readLate && !c.Complete {
			continue // an earlier agent did, or the counting began after it
		}
		r := reading(ids[f.Name], f.Point, int64(b.number),
			answered{Counters: countersOf(c, b.measurement.MeanDelay), known: known, clock: clock})
		list = append(list, record.NewBlock(record.Measurement{
			Time: now, Node: m.d.NodeName(), Flow: f.Name, Source: f.Source, SIDs: f.Path.Segments,
			To: loss.PointID(f.LastPoint), Length: uint64(b.measurement.Block),
		}, b.measurement.Guard, &r, c.Selection))
		m.d.Datapath.BlockReported(f.Name, b.number)
		if len(list) == exportBatch {
			m.d.Records.Offer(list...)
			list = make([]record.Record, 0, exportBatch)
		}
	}
	m.d.Records.Offer(list...)
}
