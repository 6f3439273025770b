// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/waymark-net/waymark/internal/model"
)

// Forwarding gives access to the state of fast forwarding.
func (d *Datapath) Forwarding() (*Forwarding, error) {
	return newForwarding(d.shared, d.entrances)
}

func (d *Datapath) entrances() map[model.IfIndex]Entrance {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[model.IfIndex]Entrance)
	for index, s := range d.served {
		if s.ingress != nil && s.device.fastIn(s.ingress.mode) {
			out[index] = Entrance{Address: s.device.address, InTC: s.ingress.mode != AttachXDP}
		}
	}
	return out
}
