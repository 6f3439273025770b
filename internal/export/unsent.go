// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/waymark-net/waymark/ipfix"
)

// weight is of how many packets a record tells, and of how many octets of them.
type weight struct{ packets, octets uint64 }

func (w *weight) add(v weight) {
	w.packets += v.packets
	w.octets += v.octets
}

// unsent is what was in records that were not sent, and when the first and the
// last of these were given up (RFC 7011 §4.3).
type unsent struct {
	weight
	first, last time.Time
}

// unsentCounter counts it. Several goroutines use it at once.
type unsentCounter struct {
	mu sync.Mutex
	unsent
}

func (u *unsentCounter) add(w weight) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.weight.add(w); u.first.IsZero() {
		u.first = now
	}
	u.last = now
}

func (u *unsentCounter) read() unsent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unsent
}

// weigh is the weight of the record at an index of a trace, 0 of others. The
// packet of a trace is counted once: with the first node.
func weigh(r Record, index int) weight {
	switch r := r.(type) {
	case *Postcard:
		return weight{1, uint64(r.Packet.Length)}
	case *Flow:
		return weight{r.Packets, r.Bytes}
	case *TraceRecord:
		if index == 0 {
			return weight{1, uint64(r.Packet.Length)}
		}
	}
	return weight{}
}

// weigh is the weight of an encoded record.
func (l *layout) weigh(record []byte) weight {
	if l.shape.kind == kindFlow {
		return weight{binary.BigEndian.Uint64(record[l.packets:]), binary.BigEndian.Uint64(record[l.bytes:])}
	}
	if l.hopIndex > 0 && record[l.hopIndex] > 0 {
		return weight{}
	}
	w := weight{packets: 1}
	if l.length > 0 {
		w.octets = uint64(binary.BigEndian.Uint32(record[l.length:]))
	}
	return w
}

// offset is where records have an element, 0 when they do not: none is first.
// What stands before has a fixed length.
func (l *layout) offset(name string) (at int) {
	for _, f := range l.template.Fields() {
		if f.Element.Name == name {
			return at
		}
		if f.Length == ipfix.VariableLength {
			break
		}
		at += int(f.Length)
	}
	return 0
}

// forgo counts the records of a block that are not sent.
func (c *Collector) forgo(b *block) {
	list, sum := *c.templates.list.Load(), weight{}
	for at := b.start; at < len(b.data); {
		index, record, end := b.next(at)
		sum.add(list[index].weigh(record))
		at = end
	}
	c.unsent.add(sum)
}
