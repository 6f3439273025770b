// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/e2e"
)

// inTunnel puts a packet into a tunnel to the router, with an unknown option in
// the outer header.
func inTunnel(option byte, inner []byte) []byte {
	header := []byte{41, 0, option, 4, 0, 0, 0, 0}
	p := e2e.Packet(0, 64, header, inner)
	copy(p[24:], netip.MustParseAddr("2001:db8:1::1").AsSlice())
	return p
}

// The stack discards a tunneled packet with an unknown option whose type asks for
// that, and reports it if the type asks for a report. It also discards a tunneled
// packet whose inner packet is longer than the outer one. None of them goes on.
func TestTunnelsThatTheStackDiscards(t *testing.T) {
	t.Parallel()
	plain := func(id int, text string) []byte {
		p := e2e.Packet(id, 64, nil, []byte(text))
		p[6] = 59
		return p
	}
	beyond := plain(3, "one more")
	binary.BigEndian.PutUint16(beyond[4:], 9)
	packets := [][]byte{
		inTunnel(0x1e, plain(1, "skip")), inTunnel(0x9e, plain(2, "discard and report")), inTunnel(0x1e, beyond),
		inTunnel(0x5e, plain(4, "discard")),
	}
	l := e2e.RaiseText(t, "chain", e2e.Chain)
	for _, attach := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		t.Run(string(attach), func(t *testing.T) {
			e2e.Serve(t, l.Node("router"), datapath.AttachMode(attach), func(index func(string) model.IfIndex) model.NodeConfig {
				c := e2e.MainlineRouter(index)
				c.Decapsulations = []model.Decapsulation{{TunnelDestination: netip.MustParseAddr("2001:db8:1::1"), Bare: true}}
				return c
			})
			var mu sync.Mutex
			var reported []byte // the option that each report points to
			reports, err := l.Capture("left", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
				const icmp = 14 + 40
				if p.Outgoing || len(p.Data) < icmp+8+48 || p.Data[20] != 58 || p.Data[icmp] != 4 || p.Data[icmp+1] != 2 {
					return
				}
				if at := icmp + 8 + int(binary.BigEndian.Uint32(p.Data[icmp+4:])); at < len(p.Data) {
					mu.Lock()
					reported = append(reported, p.Data[at])
					mu.Unlock()
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := e2e.Exchange(t, l, packets)
			if _, ok := got[1]; !ok || len(got) != 1 {
				t.Errorf("%d packets arrived: %x; want only the first", len(got), got)
			}
			e2e.Await(t, "the report arrives", 2*time.Second, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(reported) > 0
			})
			if _, err := reports.Stop(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(reported, []byte{0x9e}) {
				t.Errorf("the stack reported the options %x, want 9e", reported)
			}
		})
	}
}
