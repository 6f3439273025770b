// SPDX-License-Identifier: Apache-2.0

package socketdrops

import "sync"

// Counter counts what sockets of one purpose had no room for, of which one is
// open at most. The zero value is ready; it is safe for concurrent use.
type Counter struct {
	mu      sync.Mutex
	lost    uint64
	total   func() (uint32, error) // of the open socket; nil without one
	counted uint32                 // of that
}

// Begin counts for a socket that was opened, by a function that gives its
// [Total].
func (c *Counter) Begin(total func() (uint32, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total, c.counted = total, 0
}

// End counts no more for the socket. It is called before the socket is closed:
// then what it dropped is gone, too.
func (c *Counter) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addDropped()
	c.total = nil
}

// Lost is how many datagrams found no room.
func (c *Counter) Lost() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addDropped()
	return c.lost
}

// addDropped adds what the open socket dropped since the last look. The caller holds
// c.mu.
func (c *Counter) addDropped() {
	if c.total == nil {
		return
	}
	total, err := c.total()
	if err != nil { // it is closed, or the kernel is older than 4.12
		return
	}
	c.lost += uint64(total - c.counted) // 32 bits that wrap
	c.counted = total
}
