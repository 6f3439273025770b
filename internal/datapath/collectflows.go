// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// readThroughTime bounds how long the end of an interval waits for the readers of
// rings.
const readThroughTime = time.Second

// CollectFlows ends the interval of flows, starts the next, and passes on the
// flows of the one that ended. Without a table it passes on what is left of the
// last table.
func (d *Datapath) CollectFlows(each func(Flow)) error {
	d.applying.Lock() // keeps the table
	defer d.applying.Unlock()
	t := d.flowTable()
	if t.flows != nil {
		return t.collect(each)
	}
	if !t.gaps.holds() {
		return nil
	}
	var clock abiFlowClock
	if err := d.shared[mapFlowClock].Lookup(uint32(0), &clock); err != nil {
		return fmt.Errorf("read the interval of flows: %w", err)
	}
	d.gaps.distrust()
	return t.give(newFlowSums(), clock.Epoch, each)
}

// flowTable is the table in use; nil when no namespace aggregates.
func (d *Datapath) flowTable() *flowTable {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tables.flows == nil {
		return &flowTable{gaps: d.gaps}
	}
	return d.tables.flows
}

// useTables puts tables into use. Flows of a removed table are kept until they
// are collected.
func (d *Datapath) useTables(next *tables) {
	if old := d.tables.flows; old != nil {
		if err := old.distrustRefusals(); err != nil {
			d.options.Log.Warn("read the table of flows", "error", err)
		}
		if old != next.flows {
			time.Sleep(flowSettling)
			if err := old.drain(); err != nil {
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
		d.gaps.distrust()
	}
	d.counting = next
}

// emptied lets a caller wait until every ring was seen empty.
type emptied struct {
	asked atomic.Uint64
	rings atomic.Pointer[[]*ring]
}

// ReadThrough waits until everything that programs have written is read; false
// means that there is no reader, or that it is too slow.
func (d *Datapath) ReadThrough() bool {
	rings := d.reading.rings.Load()
	if rings == nil {
		return false
	}
	ask := d.reading.asked.Add(1)
	deadline := time.Now().Add(readThroughTime)
	for _, r := range *rings {
		var poked time.Time
		for ; r.seenEmpty.Load() < ask; time.Sleep(100 * time.Microsecond) {
			now := time.Now()
			if now.After(deadline) {
				return false
			}
			if now.Sub(poked) > 10*time.Millisecond {
				if poked = now; r.poke() != nil {
					return false
				}
			}
		}
	}
	return true
}
