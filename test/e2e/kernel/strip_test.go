// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/e2e"
)

// edged is two hosts. athos puts a trace into the packets of sockets that have options of their
// own; porthos is the edge that strips it again, on arrival or where packets leave.
func edged(in, out, attach string) string {
	return twoHosts("edged", "{id: 123}", `
        - {name: merged, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9000}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 12}}, {dex: {namespace: 123, trace-type: 0x800000}}]}`,
		fmt.Sprintf("{name: eth0, %[1]s, attach: %[3]s}, {name: eth1, %[2]s, attach: %[3]s}", in, out, attach), "{id: 123}")
}

// The receiver's kernel gets a socket's Hop-by-Hop header as it was sent, after an edge has
// stripped IOAM from it; nothing is lost.
func TestKernelAcceptsStrippedHeaders(t *testing.T) {
	t.Parallel()
	const inside, outside = "role: [ingress, egress]", "role: [], boundary: strip"
	tc := string(e2e.TCModes()[0])
	for _, tt := range []struct{ name, in, out, attach, at string }{
		{"on arrival, XDP", outside, inside, "xdp", "eth0"},
		{"on arrival, tc", outside, inside, tc, "eth0"},
		{"where it leaves", inside, outside, tc, "eth1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := e2e.RaiseText(t, "edged", edged(tt.in, tt.out, tt.attach))
			for _, header := range sendDatagrams(t, l, 9000, unix.IPV6_HOPOPTS, own) {
				if !bytes.Equal(header[1:], own[1:]) {
					t.Errorf("arrived with %x, sent with %x", header, own)
				}
			}
			sendStream(t, l, 9000, own)
			inserted := e2e.Settled(t, l, "athos", "encap_inserted")
			e2e.Settled(t, l, "porthos", "boundary_stripped")
			edge := e2e.StatusInterface(t, l, "porthos", tt.at)
			counts := map[bool]map[string]uint64{true: edge.Ingress, false: edge.Egress}[tt.at == "eth0"]
			if counts["boundary_stripped"] < 6 || counts["boundary_strip_partial"] != 0 || inserted < 6 {
				t.Errorf("athos inserted into %d packets, and the edge counts %v", inserted, counts)
			}
			if n := headerErrors(t, l.Node("beta")); n != 0 {
				t.Errorf("beta refused %d headers", n)
			}
		})
	}
}
