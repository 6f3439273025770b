// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"sync/atomic"
	"time"
)

// readThroughTime bounds how long the end of an interval waits for the readers of
// rings.
const readThroughTime = time.Second

// Progress lets a caller wait until every ring was seen empty.
type Progress struct {
	asked atomic.Uint64
	rings atomic.Pointer[[]*Ring]
}

// Watch lets callers wait for these rings, until the function that it returns is called.
func (p *Progress) Watch(rings []*Ring) (end func()) {
	for _, r := range rings {
		r.asked = &p.asked
	}
	p.rings.Store(&rings)
	return func() { p.rings.Store(nil) }
}

// ReadThrough waits until everything that programs have written is read; false
// means that there is no reader, or that it is too slow.
func (p *Progress) ReadThrough() bool {
	rings := p.rings.Load()
	if rings == nil {
		return false
	}
	ask := p.asked.Add(1)
	deadline := time.Now().Add(readThroughTime)
	for _, r := range *rings {
		var poked time.Time
		for ; r.seenEmpty.Load() < ask; time.Sleep(100 * time.Microsecond) {
			now := time.Now()
			if now.After(deadline) {
				return false
			}
			if now.Sub(poked) > 10*time.Millisecond {
				if poked = now; r.Poke() != nil {
					return false
				}
			}
		}
	}
	return true
}
