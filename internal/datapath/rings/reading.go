// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"sync/atomic"
	"time"
)

// readThroughTime bounds how long the end of an interval waits for the readers of
// rings.
const readThroughTime = time.Second

// Emptied lets a caller wait until every ring was seen empty.
type Emptied struct {
	asked atomic.Uint64
	rings atomic.Pointer[[]*Ring]
}

// Watch lets callers wait for these rings, until the function that it returns is called.
func (e *Emptied) Watch(rings []*Ring) (end func()) {
	for _, r := range rings {
		r.asked = &e.asked
	}
	e.rings.Store(&rings)
	return func() { e.rings.Store(nil) }
}

// ReadThrough waits until everything that programs have written is read; false
// means that there is no reader, or that it is too slow.
func (e *Emptied) ReadThrough() bool {
	rings := e.rings.Load()
	if rings == nil {
		return false
	}
	ask := e.asked.Add(1)
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
