// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// blockMean is the mean one-way delay of a flow's test packets in a block.
type blockMean struct {
	block int64
	mean  loss.Sample
}

// keptMeans is for how many blocks means are kept: a block's loss is known up to two blocks
// after its end.
const keptMeans = 4

// noteMean notes the mean of the block that has ended, if the test packets take the flow's
// way. The caller holds m.mu.
func (m *delayMeter) noteMean(f *model.MeasuredFlow, p *loss.Period) {
	s, _, _ := p.Delay(loss.OneWay)
	if s == nil || !f.Probes.InBand() {
		return
	}
	list := append(m.means[f.Name], blockMean{int64(m.block), loss.Sample{Delay: time.Duration(s.Mean), Packets: s.Count}})
	m.means[f.Name] = list[max(0, len(list)-keptMeans):]
}

// through is the mean one-way delay of test packets that took the flow's way in a block.
func (m *delayMeter) through(flow string, block int64) loss.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range m.means[flow] {
		if each.block == block {
			return each.mean
		}
	}
	return loss.Sample{}
}
