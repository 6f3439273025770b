// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
)

// configured is what is configured about measured flows, with defaults.
func configured(s *service.State) model.Measurement {
	return s.Resolved.Node.Measurement.WithDefaults()
}

// keySource is the file with the key of STAMP messages, and what was in it when the
// configuration was loaded. Without a file, there is no key.
type keySource struct{ file, sum string }

func keyOf(s *service.State) keySource {
	if s.Config.Stamp == nil || s.Config.Stamp.KeyFile == "" {
		return keySource{}
	}
	return keySource{s.Config.Stamp.KeyFile, s.KeySum}
}

// flowIDs numbers the flows whose loss and delay is measured here. Numbers come from names.
func flowIDs(flows []model.MeasuredFlow) map[string]loss.FlowID {
	ids, taken := make(map[string]loss.FlowID, len(flows)), make(map[loss.FlowID]bool, len(flows))
	for i := range flows {
		id := loss.FlowID(blocks.KeyOf(flows[i].Name) >> 32)
		for taken[id] { // another name has the same hash
			id++
		}
		taken[id], ids[flows[i].Name] = true, id
	}
	return ids
}

// compared are the flows whose loss and delay is measured here.
func compared(flows []model.MeasuredFlow) []model.MeasuredFlow {
	return slices.DeleteFunc(slices.Clone(flows), func(f model.MeasuredFlow) bool { return len(f.Points) == 0 })
}

// readKey reads a key, none without a file.
func readKey(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return keyfile.Read(file)
}

// hasProbes reports whether the points of flows answer test packets: those of other exchanges
// have other responders.
func hasProbes(how model.Measurement) bool {
	return how.Exchange == model.ExchangeStamp || how.Exchange == model.ExchangeRFC6374 && how.DelayPort != 0
}

// assumedClock is how good the clock of a node is that does not say it: as configured for
// all nodes.
func assumedClock(how model.Measurement) int64 {
	if how.ClockError == nil {
		return -1
	}
	return int64(*how.ClockError)
}

// timingOf is the time plan of flows' blocks.
func timingOf(how model.Measurement) loss.Timing {
	return loss.Timing{Length: how.Block, ClockDifference: how.Guard / 2, MaxDelay: how.Guard - how.Guard/2}
}
