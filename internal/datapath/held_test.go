// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/craft"
)

// TestForwardHeldPackets checks that a packet with a segment routing header leaves by the
// domain's edge without the stack, unless a header that hides there makes the edge drop
// it, which the egress hook does.
func TestForwardHeldPackets(t *testing.T) {
	enterRouter(t)
	onOneCPU(t)
	upper := craft.Datagram(1, 2, make([]byte, 40)...)
	srh := func(next byte) []byte { return append([]byte{next, 2, 4, 0, 0, 0, 0, 0}, make([]byte, 16)...) }
	hidden := append(append(srh(0), craft.UDP, 0, 1, 4, 0, 0, 0, 0), upper...)
	options := append([]byte{craft.UDP, 1, 1, 0, 0x11, 10, 0, 3, 0, 123, 0x40, 0, 0, 0, 0, 0}, upper...)
	marked := append([]byte{craft.UDP, 0, 0x12, 4, 0, 0, 0, 0}, upper...)
	for _, boundary := range []model.Boundary{model.BoundaryDrop, model.BoundaryStrip, model.BoundaryIgnore} {
		cfg := rightConfig()
		cfg.Encapsulations, cfg.Decapsulations = nil, nil
		cfg.Interfaces = cfg.Interfaces[:2]
		cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = arrivalIndex, departureIndex
		cfg.Interfaces[1].Roles, cfg.Interfaces[1].Boundary = 0, boundary
		p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP, hookIngressTC)
		p.routes(t, forward.Routing{MTU: forward.AnyMTU}, 0)
		for _, tt := range []struct {
			name string
			body []byte
			held bool
			next byte
		}{
			{"a segment routing header", append(srh(craft.UDP), upper...), false, 43},
			{"one that hides options", hidden, boundary == model.BoundaryDrop, 43},
			{"IOAM behind it", append(srh(craft.DestinationOptions), options...), boundary != model.BoundaryIgnore, 43},
			{"IOAM first", options, boundary != model.BoundaryIgnore, craft.DestinationOptions},
			{"the AltMark option", marked, false, craft.DestinationOptions},
		} {
			packet := craft.Between("2001:db8:1::1", "2001:db8:2::2", tt.next).With(tt.body)
			p.hear()
			verdict, _ := runOn(t, p.xdp, craft.Ethernet(arrivalAddress, []byte{2, 0, 0, 0, 0, 9}, packet))
			if redirected := verdict == 4; redirected == tt.held {
				t.Errorf("%s, %v: verdict %d", tt.name, boundary, verdict)
			}
		}
		p.close()
	}
}
