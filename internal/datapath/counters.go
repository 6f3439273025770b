// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
)

// Counters reads what every interface has counted, summed over CPUs.
func (d *Datapath) Counters() ([]Counters, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	out := make([]Counters, len(d.served)) // sorted before they are filled, because they are large
	for i, index := range slices.Sorted(maps.Keys(d.served)) {
		if out[i], err = d.tallies.read(d.served[index]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tallyReader reads counters. It keeps its memory, because they are read every second.
type tallyReader struct{ perCPU []bpf.ABITally }

// read reads what one interface has counted.
func (r *tallyReader) read(s *served) (Counters, error) {
	c := Counters{Index: s.index, Name: s.name}
	if r.perCPU == nil {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return c, fmt.Errorf("count CPUs: %w", err)
		}
		r.perCPU = make([]bpf.ABITally, cpus)
	}
	perCPU := r.perCPU
	if err := s.tally.Lookup(uint32(0), perCPU); err != nil {
		return c, fmt.Errorf("read the counters of interface %d: %w", s.index, err)
	}
	get := func(counter bpf.ABICounter) (sum uint64) {
		for i := range perCPU {
			sum += perCPU[i].Counters[counter]
		}
		return sum
	}
	for outcome := range model.NumOutcomes {
		c.Ingress[outcome] = get(bpf.ABICounterCOUNTER_INGRESS + bpf.ABICounter(outcome))
		c.Egress[outcome] = get(bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(outcome))
		c.Forwarded[outcome] = get(bpf.ABICounterCOUNTER_FORWARD + bpf.ABICounter(outcome))
	}
	for outcome := model.FirstOptionOutcome; outcome < model.NumOptionOutcomes; outcome++ {
		c.IngressOptions[outcome] = c.Ingress[outcome] + get(bpf.ABICounterCOUNTER_INGRESS_OPTIONS+bpf.ABICounter(outcome))
		c.EgressOptions[outcome] = c.Egress[outcome] + get(bpf.ABICounterCOUNTER_EGRESS_OPTIONS+bpf.ABICounter(outcome))
	}
	for reason := range forward.NumStackReasons {
		c.ToStack[reason] = get(bpf.ABICounterCOUNTER_STACK + bpf.ABICounter(reason))
	}
	c.RecordsWritten = get(bpf.ABICounterCOUNTER_RECORDS_WRITTEN)
	c.RecordsLost = get(bpf.ABICounterCOUNTER_RECORDS_LOST)
	c.Postcards = get(bpf.ABICounterCOUNTER_POSTCARDS)
	c.ExportsSuppressed = get(bpf.ABICounterCOUNTER_POSTCARDS_SUPPRESSED)
	c.FlowsEvicted = get(bpf.ABICounterCOUNTER_FLOWS_EVICTED)
	c.SequencesEvicted = get(bpf.ABICounterCOUNTER_SEQUENCES_EVICTED)
	c.EdgeNumbersEvicted = get(bpf.ABICounterCOUNTER_E2E_NUMBERS_EVICTED)
	c.EdgeFlowsEvicted = get(bpf.ABICounterCOUNTER_E2E_FLOWS_EVICTED)
	c.Loopback = LoopbackCounters{
		Asked:      get(bpf.ABICounterCOUNTER_LOOPBACK + bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_ASKED)),
		Returned:   get(bpf.ABICounterCOUNTER_LOOPBACK + bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_RETURNED)),
		Suppressed: get(bpf.ABICounterCOUNTER_LOOPBACK + bpf.ABICounter(bpf.ABILoopbackCountLOOPBACK_SUPPRESSED)),
	}
	for fault := range c.SRHMalformed {
		c.SRHMalformed[fault] = get(bpf.ABICounterCOUNTER_SRH_MALFORMED + bpf.ABICounter(fault))
	}
	for cause := range c.Unmarked {
		c.Unmarked[cause] = get(bpf.ABICounterCOUNTER_UNMARKED + bpf.ABICounter(cause))
	}
	return c, nil
}
