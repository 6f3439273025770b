// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// hidden is a domain between two hosts, with an edge towards each and the
// kernel's own IOAM node in the middle.
const hidden = `
name: hidden
permanent-neighbours: true
nodes:
  - {name: left, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: router
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:12::2}]
    agent:
      node: {id: 1}
      interfaces:
        - {name: eth0, id: 101, role: [], boundary: %[2]s, attach: %[1]s}
        - {name: eth1, id: 102, role: [ingress, egress], attach: %[1]s}
      namespaces: [{id: 123}]
  - name: core
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:23::3}, {to: 2001:db8:1::/64, via: 2001:db8:12::1}]
  - name: exit
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::2}]
    agent:
      node: {id: 3}
      interfaces:
        - {name: eth0, id: 301, role: [ingress, egress], attach: %[1]s}
        - {name: eth1, id: 302, role: [], boundary: drop, attach: %[1]s}
      namespaces: [{id: 123, remove: %[3]v}]
  - {name: right, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends:
      - {node: left, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: router, interface: eth0, addresses: 2001:db8:1::1/64}
  - ends:
      - {node: router, interface: eth1, addresses: 2001:db8:12::1/64}
      - {node: core, interface: eth0, addresses: 2001:db8:12::2/64}
  - ends:
      - {node: core, interface: eth1, addresses: 2001:db8:23::2/64}
      - {node: exit, interface: eth0, addresses: 2001:db8:23::3/64}
  - ends:
      - {node: exit, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: right, interface: eth0, addresses: 2001:db8:2::2/64}
`

// raiseHidden brings the domain up, with the kernel's IOAM in the middle.
func raiseHidden(t *testing.T, attach config.Attach, boundary string, remove bool) *lab.Lab {
	t.Helper()
	l := e2e.RaiseText(t, "hidden", fmt.Sprintf(hidden, attach, boundary, remove))
	e2e.SetUpKernel(t, l.Node("core"))
	return l
}

// beyondOurs is a header with a trace, and with more options and padding than a
// Waymark node reads, but no more than the kernel accepts.
func beyondOurs() []byte {
	options := [][]byte{e2e.TraceOption(123, 0x800000, 0, 3, 12)}
	for range 5 {
		options = append(options, make([]byte, 7), []byte{0x1e, 0})
	}
	return craft.Options(craft.NoNext, 2, options...)
}

// followed is a Hop-by-Hop header followed by a second one.
func followed(first, second []byte) []byte {
	return append(append([]byte{0}, first[1:]...), second...)
}

func oneTrace() []byte {
	return craft.Options(craft.NoNext, 2, e2e.TraceOption(123, 0x800000, 0, 2, 8))
}

// underneath is a packet with a trace in a Hop-by-Hop header after another one.
func underneath(id int, first byte, header []byte) []byte {
	p := e2e.Packet(id, 64, slices.Concat(header, oneTrace()), []byte("underneath"))
	p[6] = first
	return p
}

// marked returns the ids of the packets that carry IOAM.
func marked(packets map[int][]byte) (ids []int) {
	for id, p := range packets {
		if lab.IOAMBytes(craft.Ethernet(nil, nil, p)) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// A kernel node inside would fill a trace in a header that an edge cannot read to
// its end, or after another header. An edge that drops lets such a packet neither
// in nor out.
func TestEdgeDropsTheUnproven(t *testing.T) {
	t.Parallel()
	foreign := craft.Options(craft.NoNext, 2, []byte{0x1e, 4, 0, 0, 0, 0})
	packets := [][]byte{
		e2e.Packet(0, 64, beyondOurs(), []byte("more options")),
		e2e.Packet(1, 64, followed(foreign, oneTrace()), []byte("behind another")),
		e2e.Packet(2, 64, followed(oneTrace(), oneTrace()), []byte("behind another of its kind")),
		e2e.Packet(3, 64, oneTrace(), []byte("plainly")),
		e2e.Packet(4, 64, foreign, []byte("no IOAM")),
		underneath(5, 44, []byte{0, 0, 0, 0, 0, 0, 0, 1}),
		underneath(6, 43, []byte{0, 0, 4, 0, 0, 0, 0, 0}),
		underneath(7, 60, []byte{0, 0, 1, 4, 0, 0, 0, 0}),
	}
	dropped := map[string]uint64{"boundary_unproven_dropped": 5, "boundary_dropped": 2}
	none := map[string]uint64{"boundary_unproven_dropped": 0, "boundary_dropped": 0}
	for _, attach := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		for _, tt := range []struct {
			boundary     string
			router, exit map[string]uint64
		}{
			{"drop", dropped, none},
			{"ignore", none, dropped},
		} {
			t.Run(fmt.Sprintf("%s, in by %s", attach, tt.boundary), func(t *testing.T) {
				t.Parallel()
				l := raiseHidden(t, attach, tt.boundary, false)
				inside := e2e.SentHeaders(t, l, "core", "eth1")
				got := e2e.Exchange(t, l, packets)
				if ids := marked(got); len(ids) > 0 {
					t.Errorf("packets %v left the domain with IOAM: %x", ids, got[ids[0]])
				}
				if !bytes.Equal(got[4][40:], packets[4][40:]) {
					t.Errorf("the packet without IOAM was changed to %x", got[4])
				}
				e2e.CheckCounters(t, l, "router", tt.router)
				e2e.CheckCounters(t, l, "exit", tt.exit)
				filled := 0
				for _, header := range inside() {
					if bytes.Contains(header, []byte{62, 0, 0, 2}) {
						filled++
					}
				}
				// of the packets that the edge lets in, the kernel's node fills
				// those whose first header has a trace
				if want := map[string]int{"drop": 0, "ignore": 3}[tt.boundary]; filled != want {
					t.Errorf("the kernel's node filled %d packets, want %d", filled, want)
				}
			})
		}
	}
}

// An edge that strips does not make a second header, where no node looks for
// IOAM, the first one.
func TestStripAdmitsNoSecondHeader(t *testing.T) {
	t.Parallel()
	for _, attach := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		t.Run(string(attach), func(t *testing.T) {
			l := raiseHidden(t, attach, "strip", true)
			traces := e2e.Keep(t, l, "exit")
			got := e2e.Exchange(t, l, [][]byte{
				e2e.Packet(0, 64, followed(oneTrace(), oneTrace()), []byte("forged")),
				e2e.Packet(1, 64, oneTrace(), []byte("plainly")),
			})
			if _, arrived := got[0]; arrived || len(marked(got)) > 0 || len(got[1]) != 40+7 {
				t.Errorf("arrived: %x", got)
			}
			e2e.CheckCounters(t, l, "router", map[string]uint64{"boundary_unproven_dropped": 1, "boundary_stripped": 1})
			e2e.CheckCounters(t, l, "exit", map[string]uint64{"inline_removed": 0})
			if records := traces.Read(t, 0); len(records) > 0 {
				t.Errorf("forged: %+v", records)
			}
		})
	}
}

// A node inside may remove the header before a Hop-by-Hop header, here SRv6's End
// with penultimate segment popping (RFC 8986 §4.16.1). A trace that a dropping
// edge had let in would then become a trace of the domain.
func TestEdgeAdmitsNoHeaderUnderneath(t *testing.T) {
	t.Parallel()
	const segment = "2001:db8:ffff::1"
	for _, attach := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		for boundary, want := range map[string]map[string]uint64{
			"drop":   {"boundary_unproven_dropped": 1, "inline_removed": 0},
			"ignore": {"boundary_unproven_dropped": 0, "inline_removed": 1},
		} {
			t.Run(fmt.Sprintf("%s, %s", attach, boundary), func(t *testing.T) {
				l := raiseHidden(t, attach, boundary, true)
				e2e.Must(t, l.Node("router"), "ip", "-6", "route", "add", segment, "via", "2001:db8:12::2")
				e2e.Must(t, l.Node("core"), "sysctl", "-qw", "net.ipv6.conf.all.seg6_enabled=1", "net.ipv6.conf.eth0.seg6_enabled=1")
				e2e.Must(t, l.Node("core"), "ip", "-6", "route", "add", segment, "encap", "seg6local", "action", "End", "flavors", "psp", "dev", "eth1")
				routing := append([]byte{0, 4, 4, 1, 1, 0, 0, 0}, e2e.RightAddress.AsSlice()...)
				forged := underneath(1, 43, append(routing, netip.MustParseAddr(segment).AsSlice()...))
				copy(forged[24:40], netip.MustParseAddr(segment).AsSlice())
				e2e.Exchange(t, l, [][]byte{forged})
				for node, outcome := range map[string]string{"router": "boundary_unproven_dropped", "exit": "inline_removed"} {
					e2e.CheckCounters(t, l, node, map[string]uint64{outcome: want[outcome]})
				}
			})
		}
	}
}

// The stack of an edge may insert a routing header before a trace on the way out
// (SRv6's inline mode): the trace must not leave with it.
func TestEdgeKeepsTracesUnderneath(t *testing.T) {
	t.Parallel()
	for _, attach := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		t.Run(string(attach), func(t *testing.T) {
			l := raiseHidden(t, attach, "ignore", false)
			const segment = "2001:db8:ffff::2"
			e2e.Must(t, l.Node("exit"), "ip", "-6", "route", "add", segment, "via", e2e.RightAddress.String())
			e2e.Must(
				t,
				l.Node("exit"),
				"ip",
				"-6",
				"route",
				"add",
				e2e.RightAddress.String(),
				"encap",
				"seg6",
				"mode",
				"inline",
				"segs",
				segment,
				"dev",
				"eth1",
			)
			plain := e2e.Packet(1, 64, nil, []byte("plainly"))
			plain[6] = 59
			got := e2e.Exchange(t, l, [][]byte{e2e.Packet(0, 64, oneTrace(), []byte("leaves")), plain})
			if p, ok := got[0]; ok {
				t.Errorf("the trace left: %x", p)
			}
			if p := got[1]; len(p) < 40 || p[6] != 43 {
				t.Errorf("without a trace: %x", p)
			}
			e2e.CheckCounters(t, l, "exit", map[string]uint64{"boundary_unproven_dropped": 1})
		})
	}
}
