// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
)

// Forwarding gives access to the state of fast forwarding.
func (d *Datapath) Forwarding() (*forward.Control, error) {
	return forward.New(d.shared, d.entrances)
}

func (d *Datapath) entrances() map[model.IfIndex]forward.Entrance {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[model.IfIndex]forward.Entrance)
	for index, s := range d.served {
		if s.ingress != nil && s.device.FastIn(s.ingress.Mode) {
			out[index] = forward.Entrance{Address: s.device.Address, InTC: s.ingress.Mode != attach.XDP}
		}
	}
	return out
}
