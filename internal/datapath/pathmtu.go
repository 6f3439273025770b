// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// tunnels is what of the running generation changes without a new one: the
// encapsulations, whose path MTU is found while they are in use.
type tunnels struct {
	encapsulations *ebpf.Map // nil: none
	entries        []abiEncapsulation
	owners         []string
}

// tunnels keeps hold of the map that the generation's programs read.
func (g *generation) tunnels(maps mapSet) (tunnels, error) {
	m, err := maps[mapEncapsulations].Clone()
	if err != nil {
		return tunnels{}, fmt.Errorf("hold map %s: %w", mapEncapsulations, err)
	}
	return tunnels{encapsulations: m, entries: g.encapsulations, owners: g.owners}, nil
}

func (t *tunnels) close() {
	if t.encapsulations != nil {
		t.encapsulations.Close()
	}
	*t = tunnels{}
}

// SetPathMTU tells the programs the path MTU of an encapsulation's tunnel in
// bytes of an IPv6 packet, 0 for "not known". It holds until the next Apply,
// whose configuration has path MTUs of its own. An encapsulation that is not
// running is no error: it has gone since the path MTU was found.
func (d *Datapath) SetPathMTU(encapsulation string, mtu int) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	for i, owner := range d.tunnels.owners {
		if owner != encapsulation {
			continue
		}
		// The entry is written as a whole; what a program may be reading of it
		// right now stays the same, byte for byte.
		entry := d.tunnels.entries[i]
		entry.PathMtu = uint32(mtu)
		if err := d.tunnels.encapsulations.Put(uint32(i), entry); err != nil {
			return fmt.Errorf("set the path MTU of encapsulation %q: %w", encapsulation, err)
		}
	}
	return nil
}
