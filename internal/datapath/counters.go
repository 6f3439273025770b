// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

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
type tallyReader struct{ perCPU []abiTally }

// read reads what one interface has counted.
func (r *tallyReader) read(s *served) (Counters, error) {
	c := Counters{Index: s.index, Name: s.name}
	if r.perCPU == nil {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return c, fmt.Errorf("count CPUs: %w", err)
		}
		r.perCPU = make([]abiTally, cpus)
	}
	perCPU := r.perCPU
	if err := s.tally.Lookup(uint32(0), perCPU); err != nil {
		return c, fmt.Errorf("read the counters of interface %d: %w", s.index, err)
	}
	get := func(counter abiCounter) (sum uint64) {
		for i := range perCPU {
			sum += perCPU[i].Counters[counter]
		}
		return sum
	}
	for outcome := range model.NumOutcomes {
		c.Ingress[outcome] = get(abiCounterCOUNTER_INGRESS + abiCounter(outcome))
		c.Egress[outcome] = get(abiCounterCOUNTER_EGRESS + abiCounter(outcome))
		c.Forwarded[outcome] = get(abiCounterCOUNTER_FORWARD + abiCounter(outcome))
	}
	for outcome := model.FirstOptionOutcome; outcome < model.NumOptionOutcomes; outcome++ {
		c.IngressOptions[outcome] = c.Ingress[outcome] + get(abiCounterCOUNTER_INGRESS_OPTIONS+abiCounter(outcome))
		c.EgressOptions[outcome] = c.Egress[outcome] + get(abiCounterCOUNTER_EGRESS_OPTIONS+abiCounter(outcome))
	}
	for reason := range NumStackReasons {
		c.ToStack[reason] = get(abiCounterCOUNTER_STACK + abiCounter(reason))
	}
	c.RecordsWritten = get(abiCounterCOUNTER_RECORDS_WRITTEN)
	c.RecordsLost = get(abiCounterCOUNTER_RECORDS_LOST)
	c.Postcards = get(abiCounterCOUNTER_POSTCARDS)
	c.ExportsSuppressed = get(abiCounterCOUNTER_POSTCARDS_SUPPRESSED)
	c.FlowsEvicted = get(abiCounterCOUNTER_FLOWS_EVICTED)
	c.SequencesEvicted = get(abiCounterCOUNTER_SEQUENCES_EVICTED)
	c.EdgeNumbersEvicted = get(abiCounterCOUNTER_E2E_NUMBERS_EVICTED)
	c.EdgeFlowsEvicted = get(abiCounterCOUNTER_E2E_FLOWS_EVICTED)
	c.Loopback = LoopbackCounters{
		Asked:      get(abiCounterCOUNTER_LOOPBACK + abiCounter(abiLoopbackCountLOOPBACK_ASKED)),
		Returned:   get(abiCounterCOUNTER_LOOPBACK + abiCounter(abiLoopbackCountLOOPBACK_RETURNED)),
		Suppressed: get(abiCounterCOUNTER_LOOPBACK + abiCounter(abiLoopbackCountLOOPBACK_SUPPRESSED)),
	}
	for fault := range c.SRHMalformed {
		c.SRHMalformed[fault] = get(abiCounterCOUNTER_SRH_MALFORMED + abiCounter(fault))
	}
	for cause := range c.Unmarked {
		c.Unmarked[cause] = get(abiCounterCOUNTER_UNMARKED + abiCounter(cause))
	}
	return c, nil
}
