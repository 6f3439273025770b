// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/collect/known"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

const (
	// mostTasks is how many tasks wait for the shards, at most; then the shards work.
	mostTasks = 4096
	// fewTasks are done by one goroutine, because to start others takes longer.
	fewTasks = 64
	// mostRead is how many records of a message are read ahead, and about how many of all messages together.
	mostRead = 1024
	// mostStops is how much room for nodes of paths a shard keeps.
	mostStops = 1 << 15
)

// shards join postcards on several processors. The joining stage hands out tasks, lets all shards work at
// once, and waits for them: what depends on the order of messages stays in one goroutine, and the result is
// that of one joiner. Each packet belongs to one shard, by a hash that senders cannot foresee.
type shards struct {
	all   []*shard
	seed  maphash.Seed
	tasks int    // of all shards
	order uint64 // of the next task

	behind bool // exporters are: packets wait longer
}

// shard has a part of the packets.
type shard struct {
	joiner *join.Joiner
	tasks  []task
	now    *task        // that is being done
	paths  []joined     // that came of the tasks
	stops  []known.Stop // of the paths
}

type taskKind uint8

const (
	addPostcard taskKind = iota
	advanceTime          // paths whose wait is over are emitted; longer while exporters are behind
	endAll               // all paths are emitted
)

// task is something to do for a shard.
type task struct {
	kind   taskKind
	behind bool // of advanceTime
	card   join.Postcard
	at     time.Time
	order  uint64
	place  int // of its results: as many results were there before
}

// joined is a path that a shard emitted, to be judged.
type joined struct {
	order, first uint64 // of the task, and of the first postcard
	place        int
	at           time.Time // of the task
	record       *record.Path
	key          known.FlowKey
	stops        []known.Stop
}

// newShards makes shards, each of which keeps its part of the postcards.
func newShards(n int, c join.Config) *shards {
	s := &shards{seed: maphash.MakeSeed()}
	keep := cmp.Or(max(c.Keep, 0), join.DefaultKeep)
	n = max(min(n, keep), 1)
	for i := range n {
		c.Keep = keep*(i+1)/n - keep*i/n
		one := &shard{}
		one.joiner = join.New(c, one.emit)
		s.all = append(s.all, one)
	}
	return s
}

// emit takes a path. The joiner uses its memory again, and the records of its postcards are released: nothing may keep
// either.
func (s *shard) emit(p *join.Path) {
	first := len(s.stops)
	s.stops = appendStops(s.stops, p)
	s.paths = append(s.paths, joined{
		order: s.now.order, first: p.Order, place: s.now.place, at: s.now.at, record: newPath(p),
		key: known.FlowKey{Namespace: p.Namespace, FlowID: p.FlowID, Source: p.Source}, stops: s.stops[first:len(s.stops):len(s.stops)],
	})
	for i := range p.Postcards {
		p.Postcards[i].Record.Release()
	}
}

// appendStops appends the nodes of a path.
func appendStops(stops []known.Stop, p *join.Path) []known.Stop {
	for i := range p.Postcards {
		c := &p.Postcards[i]
		at := c.Time
		if !c.Record.Time.IsZero() {
			at = c.Record.Time.Time // exporters report until when they observed packets
		}
		stop := known.Stop{Exporter: c.Exporter, Role: c.Role, Time: at}
		if c.HasHopLimit {
			stop.HopLimit = c.HopLimit
		}
		stops = append(stops, stop)
	}
	return stops
}

// do does the tasks of a shard.
func (s *shard) do() {
	if s.stops = s.stops[:0]; cap(s.stops) > mostStops { // the paths of before were judged
		s.stops = nil
	}
	for i := range s.tasks {
		s.now = &s.tasks[i]
		switch t := s.now; t.kind {
		case addPostcard:
			s.joiner.Add(t.card, t.at)
		case advanceTime:
			s.joiner.SetBehind(t.behind)
			s.joiner.Expire(t.at)
		case endAll:
			s.joiner.Flush()
		}
	}
	clear(s.tasks)
	s.tasks, s.now = s.tasks[:0], nil
}

// add hands out a postcard.
func (s *shards) add(card join.Postcard, now time.Time, place int) {
	card.Order = s.order
	to := s.all[0]
	if n := uint64(len(s.all)); n > 1 {
		to = s.all[maphash.Comparable(s.seed, card.Key)%n]
	}
	to.tasks = append(to.tasks, task{kind: addPostcard, card: card, at: now, order: s.order, place: place})
	s.order++
	s.tasks++
}

// addTask hands out a task that concerns all packets.
func (s *shards) addTask(kind taskKind, now time.Time, place int) {
	for _, one := range s.all {
		one.tasks = append(one.tasks, task{kind: kind, behind: s.behind, at: now, order: s.order, place: place})
	}
	s.order++
	s.tasks += len(s.all)
}

// work does all tasks, and returns the paths in the order in which one joiner had emitted them.
func (s *shards) work() (paths []joined) {
	if s.tasks == 0 {
		return nil
	}
	several(len(s.all), s.tasks, func(i int) { s.all[i].do() })
	s.tasks = 0
	for _, one := range s.all {
		paths = append(paths, one.paths...)
		clear(one.paths)
		one.paths = one.paths[:0]
	}
	slices.SortFunc(paths, func(a, b joined) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.first, b.first)) })
	return paths
}

// several calls a function for each number below n, at once if there is much to do.
func several(n, tasks int, do func(i int)) {
	if tasks < fewTasks {
		for i := range n {
			do(i)
		}
		return
	}
	var others sync.WaitGroup
	for i := range n - 1 {
		others.Go(func() { do(i + 1) })
	}
	do(0)
	others.Wait()
}

func (s *shards) stats() (sum join.Stats) {
	for _, one := range s.all {
		sum.Add(one.joiner.Stats())
	}
	return sum
}

func (s *shards) waiting() (n int) {
	for _, one := range s.all {
		n += one.joiner.Waiting()
	}
	return n
}

// countKept is how many postcards wait or are remembered.
func (s *shards) countKept() (n int) {
	for _, one := range s.all {
		n += one.joiner.Kept()
	}
	return n
}

// judgePending lets the shards do what was handed out, and judges the paths. It is called before anything changes
// that verdicts depend on, so that each path is judged by what was known when its last postcard came. The
// lock is held.
func (c *joining) judgePending() {
	paths := c.shards.work()
	if len(paths) == 0 {
		return
	}
	before, n := c.results, 0
	c.results = make([]record.Record, 0, len(before)+len(paths))
	for i := range paths {
		p := &paths[i]
		c.results = append(c.results, before[n:p.place]...)
		n = p.place
		c.addVerdict(p)
		c.results = append(c.results, p.record)
	}
	c.results = append(c.results, before[n:]...)
}

// read is a data record that was read ahead.
type read struct {
	data  record.Data
	fault record.Fault
}

// readAhead reads the records of messages, on several processors. Readings are made before, by template.
func (c *joining) readAhead(batch []arrival) {
	records := 0
	for i := range batch {
		if m := batch[i].message; m != nil {
			records += m.Records
			for _, set := range m.Sets {
				c.reading(set.Template)
			}
		}
	}
	n := len(c.shards.all)
	if n == 1 || records < fewTasks {
		return // each is read in its turn
	}
	several(n, records, func(first int) {
		for i := first; i < len(batch); i += n {
			c.readMessage(&batch[i])
		}
	})
}

// readMessage reads the records of a message about IOAM, in their order.
func (c *joining) readMessage(a *arrival) {
	if a.message == nil || a.message.Records > mostRead {
		return
	}
	a.read = make([]read, 0, a.message.Records)
	for _, set := range a.message.Sets {
		r := c.readings[set.Template]
		if r == nil { // there are too many templates
			a.read = nil
			return
		}
		for data := range set.Records() {
			var one read
			if r.IOAM && data.Template.Scope() == 0 {
				one = c.readOne(r, data, a.message.ExportTime)
			}
			a.read = append(a.read, one)
		}
	}
}

// readOne reads a record about IOAM.
func (c *joining) readOne(r *record.Reading, data ipfix.DataRecord, exported time.Time) read {
	check := checking{enterprise: c.config.Enterprise}
	d := r.Read(data, check.noteOutOfRange)
	check.recordFault(d.Fault(exported))
	return read{d, check.fault}
}
