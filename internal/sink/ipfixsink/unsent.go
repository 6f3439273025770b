// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// unsent is the content of records that were not sent, and when the first and the last
// of them were dropped (RFC 7011 §4.3).
type unsent struct {
	record.Weight
	first, last time.Time
}

// unsentCounter counts unsent records. Several goroutines use it at once.
type unsentCounter struct {
	mu sync.Mutex
	unsent
}

func (u *unsentCounter) add(w record.Weight) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.Weight.Add(w); u.first.IsZero() {
		u.first = now
	}
	u.last = now
}

func (u *unsentCounter) read() unsent {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.unsent
}

// discardBlock counts the records of a block that are not sent.
func (c *Sink) discardBlock(b *block) {
	list, sum := c.templates.Layouts(), record.Weight{}
	for at := b.start; at < len(b.data); {
		index, encoded, end := b.next(at)
		if index != markLayout {
			sum.Add(list[index].Weigh(encoded))
		}
		at = end
	}
	c.unsent.add(sum)
}
