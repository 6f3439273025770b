// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
)

// losingCure is the cure for a sink that loses records.
const losingCure = "check the disk's space and speed, or the collector, or lower the frequency of the encapsulations"

// losing is what the log knows about the losses of a sink.
type losing struct {
	missed uint64 // records, at the last look
	before uint64 // those at the look before the losses began
	logged bool   // it loses records, and the log says so
}

// logLosses logs when a sink begins to lose records, and how many it has lost when it has lost none
// since the last look and the last attempt succeeded: without records, a full disk shows no loss.
func (x *Sinks) logLosses(stats []sinkStats) {
	now, faults, cures := make(map[string]losing), make(map[string]string), make(map[string]string)
	for _, s := range stats { // two sinks to one file are one here
		k := x.losing[s.name]
		k.missed = now[s.name].missed + s.Missed()
		now[s.name] = k
		if s.Error != "" {
			faults[s.name], cures[s.name] = ": "+s.Error, s.Cure
		}
	}
	for name, k := range now {
		last := x.losing[name].missed
		if k.missed < last { // the sink began anew, with a reload
			if k.logged {
				x.logRegained(name, x.losing[name])
			}
			k.logged, last = false, 0
		}
		switch {
		case k.missed > last && !k.logged:
			k.before, k.logged = last, true
			text := fmt.Sprintf("%s loses records, %d so far%s", name, k.missed-last, faults[name])
			service.LogWarning(x.d.Log, health.New(health.ExporterFailing, "", text, cmp.Or(cures[name], losingCure)))
		case k.missed <= last && k.logged && faults[name] == "":
			x.logRegained(name, k)
			k.logged = false
		}
		now[name] = k
	}
	for name, k := range x.losing {
		if _, there := now[name]; !there && k.logged { // the configuration ended it
			x.logRegained(name, k)
		}
	}
	x.losing = now
}

func (x *Sinks) logRegained(name string, k losing) {
	x.d.Log.Info("an exporter loses no records any more", "warning", health.ExporterFailing, "exporter", name, "lost", k.missed-k.before)
}
