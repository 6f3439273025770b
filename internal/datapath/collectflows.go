// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"reflect"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/delays"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// CollectFlows ends the interval of flows, starts the next, and passes on the
// flows of the one that ended. Without a table it passes on what is left of the
// last table.
func (d *Datapath) CollectFlows(each func(flows.Flow)) error {
	d.applying.Lock() // keeps the table
	defer d.applying.Unlock()
	return d.flowTable().Collect(each)
}

// flowTable is the table in use; nil when no namespace aggregates.
func (d *Datapath) flowTable() *flows.Table {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tables.flows == nil {
		return flows.WithoutMap(d.shared[bpf.MapFlowClock], d.sequences)
	}
	return d.tables.flows
}

// useTables puts tables into use. Flows of a removed table are kept until they
// are collected.
func (d *Datapath) useTables(next *tables) {
	if old := d.tables.flows; old != nil {
		if err := old.DistrustRefusals(); err != nil {
			d.options.Log.Warn("read the table of flows", "error", err)
		}
		if old != next.flows {
			time.Sleep(flows.Settling)
			if err := old.Drain(); err != nil {
				d.options.Log.Warn("read the last flows of a table", "error", err)
			}
		}
	}
	if err := next.adopt(d.options.PinPath, d.tables); err != nil {
		d.options.Log.Warn("keep tables for the next agent", "error", err)
	}
	d.tables = next
	d.cards.Store(next.cards)
	d.measured.Store(next.measured)
}

// counting is the part of a configuration that decides which packets are counted.
type counting struct {
	roles          map[model.IfIndex]model.Role
	uppers         []model.Upper
	aggregated     map[ioam.NamespaceID]bool
	decapsulations []model.Decapsulation
}

func countingOf(cfg model.NodeConfig) *counting {
	c := &counting{
		roles: make(map[model.IfIndex]model.Role), uppers: cfg.Uppers,
		aggregated: make(map[ioam.NamespaceID]bool), decapsulations: cfg.Decapsulations,
	}
	for _, i := range cfg.Interfaces {
		c.roles[i.Index] = i.Roles
	}
	for _, ns := range cfg.Namespaces {
		c.aggregated[ns.ID] = ns.Export == model.ExportAggregate || ns.Export == model.ExportSample
	}
	return c
}

// countAs records what is counted from now on: packets that were not counted
// before, or met no program, are not missing.
func (d *Datapath) countAs(next *counting, attached bool) {
	if attached || !reflect.DeepEqual(d.counting, next) {
		d.sequences.Distrust()
	}
	d.counting = next
}

// CollectEdges ends the interval of the flows that are measured from edge to edge, starts
// the next, and passes on what was counted in the one that ended: of each flow that the
// table holds, also of those without packets. It returns the sum of what was counted of flows
// that had given way to others by then. Without a table there are none.
func (d *Datapath) CollectEdges(each func(flows.EdgeFlow)) (left edgetoedge.Totals, err error) {
	d.applying.Lock() // keeps the table
	defer d.applying.Unlock()
	table := d.tables.maps[bpf.MapE2EFlows]
	if table == nil {
		return left, nil
	}
	return flows.CollectEdges(table, d.shared[bpf.MapE2EClock], each)
}

// Delays are the histograms of delays, of all CPUs together; none where they are not counted. It
// also reports whether they are counted.
func (d *Datapath) Delays() (list []delays.Series, counts bool, err error) {
	memory, err := d.delaysMemory()
	if memory == nil || err != nil {
		return nil, false, err
	}
	list, err = memory.Read() // without the lock: it takes a millisecond for each CPU
	return list, true, err
}

// delaysMemory maps the table of histograms, nil if there is none. It can be read when another has replaced it.
func (d *Datapath) delaysMemory() (*delays.Memory, error) {
	d.applying.Lock() // keeps the table
	defer d.applying.Unlock()
	m := d.tables.maps[bpf.MapDelays]
	if m == nil {
		return nil, nil
	}
	return delays.Map(m)
}
