// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// pacedRecords is how many records are offered at once: fewer than a queue takes.
const pacedRecords = 256

// flowResult are the records of a flow's block.
type flowResult struct {
	flow  string
	block uint64 // 0: of several blocks
	list  []record.Record
}

// pacer spreads the results of many flows over a time, because they are known at the same time and
// would overrun the queues of their readers.
type pacer struct {
	emit     func(flowResult)
	bursts   chan burst
	waiting  atomic.Int64 // bursts that are not over
	noPauses chan struct{}
	done     chan struct{}
}

type burst struct {
	results  []flowResult
	duration time.Duration // in which they are given
}

func newPacer(give func(flowResult)) *pacer {
	return &pacer{emit: give, bursts: make(chan burst, 4), noPauses: make(chan struct{}), done: make(chan struct{})}
}

// release gives results: a few at once, many spread over a time. It waits only if those of
// several blocks before are not over.
func (p *pacer) release(results []flowResult, over time.Duration) {
	records := 0
	for i := range results {
		records += len(results[i].list)
	}
	if records <= pacedRecords && p.waiting.Load() == 0 {
		for _, each := range results {
			p.emit(each)
		}
		return
	}
	p.waiting.Add(1)
	p.bursts <- burst{results, over}
}

// run gives results until end.
func (p *pacer) run() {
	defer close(p.done)
	for b := range p.bursts {
		total := 0
		for i := range b.results {
			total += len(b.results[i].list)
		}
		pause := b.duration * pacedRecords / time.Duration(max(total, 1))
		given := 0
		for _, each := range b.results {
			p.emit(each)
			if given += len(each.list); given >= pacedRecords {
				given = 0
				p.pause(pause)
			}
		}
		p.waiting.Add(-1)
	}
}

// pause waits, unless others wait for it.
func (p *pacer) pause(d time.Duration) {
	if len(p.bursts) > 0 {
		return
	}
	select {
	case <-p.noPauses:
	case <-time.After(d):
	}
}

// end gives what is left, without pauses. Nothing may be released after it.
func (p *pacer) end() {
	close(p.noPauses)
	close(p.bursts)
	<-p.done
}
