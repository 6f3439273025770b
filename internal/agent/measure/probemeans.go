// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// blockMean is the mean one-way delay of a flow's test packets in a block.
type blockMean struct {
	block int64
	mean  loss.Tested
}

// keptMeans is for how many blocks means are kept: a block's loss is known up to two blocks
// after its end.
const keptMeans = 4

// noteMean notes the mean of the block that has ended, if the test packets take the flow's
// way, and both clocks are near enough in all of it: the mean may raise a warning. The caller
// holds m.mu.
func (m *DelayMeter) noteMean(f *model.MeasuredFlow, p *loss.Period, timing loss.Timing) {
	s, from, to := p.Delay(loss.OneWay)
	clocks, near := timing.Apart(from, to)
	if s == nil || !near || !f.Probes.InBand() {
		return
	}
	mean := loss.Tested{Sample: loss.Sample{Delay: time.Duration(s.Mean), Packets: s.Count}, Clocks: clocks}
	list := append(m.means[f.Name], blockMean{int64(m.block), mean})
	m.means[f.Name] = list[max(0, len(list)-keptMeans):]
}

// meanOfBlock is the mean delay of the test packets that took the flow's way in a block.
func (m *DelayMeter) meanOfBlock(flow string, block int64) loss.Tested {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range m.means[flow] {
		if each.block == block {
			return each.mean
		}
	}
	return loss.Tested{}
}
