// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/collect/known"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// mostJoined is how many messages that wait are joined before their results are passed on.
const mostJoined = 64

// joining is the second stage: what is kept of earlier records, and the results. One goroutine works
// on it, which lets shards do a part of it at once; others read its counters between two batches.
type joining struct {
	config   *Config
	sessions *ipfix.Decoder
	output   *output

	mu             sync.Mutex // guards what follows
	shards         *shards
	traces         traces
	blocks         *blocks
	clocks         clockRecords
	names          names
	exporters      exporters
	verdicts       verdicts
	lag            lag
	readings       map[*ipfix.Template]*record.Reading // of the templates that are in use
	stats          Stats
	sender         sender          // of the record that is read
	shardsHaveTime bool            // the shards know the time of the message
	ahead          []read          // records of the message that were read already
	results        []record.Record // that were not passed on yet

	batch []arrival // memory for the next ones; only of the goroutine that joins
}

func newJoining(config *Config, decoder *ipfix.Decoder, out *output) (*joining, error) {
	j := &joining{
		config: config, sessions: decoder, output: out,
		traces: newTraces(), names: newNames(nameLimits(config.Limits.Sessions)),
		verdicts: newVerdicts(config.Join.Wait), readings: map[*ipfix.Template]*record.Reading{},
		lag: newLag(config.Join, time.Now()),
	}
	j.shards = newShards(config.Shards, config.Join)
	j.clocks = newClockRecords(config.ClockInterval, j.names.limits.Nodes, j.emit)
	var err error
	j.blocks, err = newBlocks(config.Join.Wait, config.Thresholds, config.AssumeSelection, j.emit)
	return j, err
}

// run joins what arrives, until the channel is closed and empty, then gives out what still waits.
// counters are those of all stages.
func (c *joining) run(arrivals <-chan arrival, counters func() Stats) {
	flush, expire := time.NewTicker(c.config.flushInterval), time.NewTicker(c.config.expiryInterval)
	defer flush.Stop()
	defer expire.Stop()
	var report <-chan time.Time
	if c.config.Stats > 0 {
		t := time.NewTicker(c.config.Stats)
		defer t.Stop()
		report = t.C
	}
	for {
		select {
		case a, more := <-arrivals:
			if !more {
				c.finishAll()
				return
			}
			c.join(a, arrivals)
		case <-flush.C:
			c.flush(time.Now())
		case <-expire.C:
			c.sessions.Expire(time.Now())
			c.change(func() {
				c.blocks.expire(time.Now())
				c.clocks.expire(time.Now())
			})
		case <-report:
			stats := counters()
			c.change(func() { c.emit(stats.Record()) })
		}
	}
}

// join takes an arrival, and others that wait.
func (c *joining) join(a arrival, more <-chan arrival) {
	batch, records := append(c.batch[:0], a), a.records()
	for len(batch) <= mostJoined && records < mostRead && len(more) > 0 {
		if a, ok := <-more; ok {
			batch, records = append(batch, a), records+a.records()
		}
	}
	c.change(func() {
		c.readAhead(batch)
		for i := range batch {
			c.arrived(batch[i])
		}
	})
	clear(batch)
	c.batch = batch
}

// change does something to the stage, and passes on what came of it.
func (c *joining) change(do func()) {
	c.mu.Lock()
	do()
	c.judgePending()
	batch := c.results
	c.results = nil
	c.mu.Unlock()
	c.output.pass(batch)
}

// emit gives out a record. The lock is held.
func (c *joining) emit(r record.Record) { c.results = append(c.results, r) }

func (c *joining) flush(now time.Time) {
	c.change(func() {
		c.shards.behind = c.lag.lasts(now)
		c.shards.addTask(advanceTime, now, len(c.results))
		c.blocks.assembler.Advance(now.UnixNano())
		c.expireTraces(now, traceWait)
	})
}

// finishAll gives out what waits, because nothing comes any more.
func (c *joining) finishAll() {
	c.change(func() {
		c.shards.addTask(endAll, time.Now(), len(c.results))
		c.judgePending()
		c.blocks.assembler.Flush()
		c.clocks.finish()
		c.expireTraces(time.Now(), 0)
		c.stats.Problems[ipfix.CauseSequenceGap] += c.sessions.CountMissed(time.Now().Add(time.Hour))
	})
}

// arrived takes the records of a message. The lock is held.
func (c *joining) arrived(a arrival) {
	if a.over {
		c.judgePending()
		c.problem(a.err)
		c.verdicts.base.End(a.session)
		return
	}
	c.stats.Octets += uint64(a.octets)
	if a.err != nil {
		c.judgePending()
		c.problem(a.err)
		c.verdicts.base.NoteUnread(a.session)
		return
	}
	c.stats.Messages++
	m, from := a.message, a.from
	for i := range m.Problems {
		c.stats.Problems[m.Problems[i].Cause] += uint64(m.Problems[i].Count)
	}
	from.Domain = m.Domain
	if !c.exporters.changesNothing(&a, from) {
		c.judgePending()
	}
	at := origin{from, m.ExportTime, known.Feed{Session: a.session, Domain: m.Domain}, a.session, c.exporters.message(&a, from)}
	c.verdicts.message(&at, m, a.at)
	c.shardsHaveTime, c.ahead = false, a.read
	for _, set := range m.Sets {
		for data := range set.Records() {
			c.record(at, data, a.at)
		}
	}
}

// problem counts why a message was not decoded. The lock is held.
func (c *joining) problem(err error) {
	var p *ipfix.Problem
	if errors.As(err, &p) {
		c.stats.Problems[p.Cause] += uint64(p.Count)
	}
}

// counted is what was counted so far, without what the first stage counts.
func (c *joining) counted() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Problems[ipfix.CauseSequenceGap] += c.sessions.CountMissed(time.Now())
	s := c.stats
	s.NamesRefused = c.names.refused
	s.Join, s.Waiting = c.shards.stats(), c.shards.waiting()
	s.PathsLost, s.PathsUnknown, s.Pairs = c.verdicts.lost, c.verdicts.unknown, c.pairs()
	s.Compared, s.Assembled, s.Beyond = c.blocks.counters, c.blocks.assembler.Counters(), c.blocks.beyond
	return s
}
