// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/ioam"
)

// byteSource makes choices from a fuzz input; when the input is used up, it
// always makes the first choice.
type byteSource struct{ rest []byte }

func (b *byteSource) below(n int) int {
	v := 0
	for scale := 1; scale < n && len(b.rest) > 0; scale <<= 8 {
		v, b.rest = v<<8|int(b.rest[0]), b.rest[1:]
	}
	return v % n
}

// FuzzNode runs any frame through both hooks of a node. The choices determine the
// node's configuration and the frame's circumstances.
func FuzzNode(f *testing.F) {
	for _, test := range ingressCases {
		packet := rightPacket(f)
		if test.mutate != nil {
			packet = test.mutate(packet)
		}
		f.Add(packet, []byte{})
		f.Add(packet, []byte{0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 1, 1})
	}
	f.Add(tunnelPacket(f), []byte{1, 0, 0, 1})
	f.Add(carrying(f, dexHeader), []byte{})
	f.Add(tunnelCarrying(f, dexHeader), []byte{1, 0, 0, 1})
	f.Add(ipv6Packet(ioam.NextHeaderUDP, udp(10)), []byte{0, 0, 0, 3, 0, 1, 1, 0, 0, 0, 0, 0, 0, 10, 1, 1, 1})
	f.Fuzz(func(t *testing.T, packet, choices []byte) {
		if len(packet) > 1<<17 {
			return
		}
		s := &byteSource{choices}
		config := randomConfig(s)
		frame := randomFrame(s, packet)
		ipv6.Summarize(packet)
		checkedRun(t, config, frame, true)
		result := checkedRun(t, config, frame, false)
		frame.Data, frame.Ingress, frame.Interface = result.Data, frame.Interface, ifEgress
		checkedRun(t, config, frame, true)
	})
}
