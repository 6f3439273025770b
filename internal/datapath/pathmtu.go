// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
)

// SetPathMTU tells the programs the path MTU of an encapsulation's tunnel in
// bytes of an IPv6 packet, 0 for "not known". It holds until the next Apply,
// whose configuration has path MTUs of its own. An encapsulation that is not
// running is no error: it has gone since the path MTU was found.
func (d *Datapath) SetPathMTU(encapsulation string, mtu int) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if d.set == nil {
		return nil
	}
	half := 1 - d.set.other()
	running := d.set.filled[half]
	for i, owner := range running.owners {
		if owner != encapsulation {
			continue
		}
		// The entry is written as a whole; what a program may be reading of it
		// right now stays the same, byte for byte.
		entry := running.encapsulations[i]
		entry.Index = half*d.set.capacity.encapsulations + uint32(i)
		entry.PathMtu = uint32(mtu)
		if err := d.set.maps[mapEncapsulations].Put(entry.Index, entry); err != nil {
			return fmt.Errorf("set the path MTU of encapsulation %q: %w", encapsulation, err)
		}
	}
	return nil
}
