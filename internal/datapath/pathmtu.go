// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// SetPathMTU gives the programs the path MTU of an encapsulation's tunnel, as the
// length of an IPv6 packet, or 0 for "unknown". It is valid until the next Apply,
// whose configuration has its own path MTUs. An encapsulation that is not running
// is no error: it was removed since the path MTU was found.
func (d *Datapath) SetPathMTU(encapsulation string, mtu int) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if d.set == nil {
		return nil
	}
	index := 1 - d.set.unusedIndex()
	running := d.set.filled[index]
	for i, owner := range running.Owners {
		if owner != encapsulation {
			continue
		}
		// The entry is written as a whole; the parts that a program may be
		// reading keep the same bytes.
		entry := running.Encapsulations[i]
		entry.Index = index*d.set.capacity.Encapsulations + uint32(i)
		entry.PathMtu = uint32(mtu)
		if err := d.set.maps[bpf.MapEncapsulations].Put(entry.Index, entry); err != nil {
			return fmt.Errorf("set the path MTU of encapsulation %q: %w", encapsulation, err)
		}
	}
	return nil
}
