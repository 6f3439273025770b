// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// narrow is `line` whose second inner link carries no more than the edge: full
// packets that have grown at athos are too big for porthos to forward.
func narrow(t *testing.T, tt transfer) *lab.Lab {
	t.Helper()
	top := domain(t, tt)
	setMTU(top, 1500, 1700)
	for i := range top.Links {
		if ends := top.Links[i].Ends; ends[0].Node == "porthos" && ends[1].Node == "aramis" {
			top.Links[i].MTU = 1500
		}
	}
	return raise(t, top)
}

// A link inside the domain that has no room for the tunnel costs one datagram:
// then full ones go on as they are, and smaller ones have their traces.
func TestTunnelPathMTU(t *testing.T) {
	t.Parallel()
	full := lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 20, Interval: patience.Of(100 * time.Millisecond), Size: 1452, Port: 9000}
	for _, tt := range transfers() {
		if tt.mode != "encap" {
			continue
		}
		t.Run(string(tt.attach), func(t *testing.T) {
			l := narrow(t, tt)
			beta := startScan(t, l, "beta", "eth0")
			r, err := l.Send(t.Context(), full)
			if err != nil || r.Lost() > 1 || r.Duplicate > 0 {
				t.Fatalf("full datagrams: %+v, %v; want at most one lost", r, err)
			}
			if n := settled(t, l, "athos", "encap_tunneled"); n != 1 {
				t.Errorf("%d full datagrams were encapsulated, want the first", n)
			}
			checkCounters(t, l, "athos", map[string]uint64{"encap_skipped_mtu": uint64(full.Count) - 1})
			checkKnown(t, l, tt)

			mustIn(t, l, "athos", "agent", "reload")
			full := full
			full.Count, full.Interval = 200, time.Millisecond
			small := full
			small.Size = 1500 - 120 - 48 // what still fits
			traces := keep(t, l, "aramis")
			send(t, l, "alpha", full, small)
			traces.read(t, small.Count)
			checkAlpha(t, l)
			beta.stop(t)
			if n := beta.ioamBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
		})
	}
}

// checkKnown wants athos to tell what the path carries, and what to do.
func checkKnown(t *testing.T, l *lab.Lab, tt transfer) {
	t.Helper()
	s := statusOf(t, l, "athos")
	if len(s.PathMTUs) != 1 || s.PathMTUs[0].MTU != 1500 || s.PathMTUs[0].Destination.String() != "2001:db8:ff::3" {
		t.Errorf("%s: path MTUs %+v, want 1500 to 2001:db8:ff::3", tt.attach, s.PathMTUs)
	}
	if !slices.ContainsFunc(s.Warnings, func(w health.Warning) bool {
		return w.Code == health.PathMTULowered && strings.Contains(w.Cure, "MTU of 1620")
	}) {
		t.Errorf("%s: no warning with the MTU that links need: %+v", tt.attach, s.Warnings)
	}
	if text := mustIn(t, l, "athos", "status"); !strings.Contains(text, "path to 2001:db8:ff::3 carries 1500 bytes") {
		t.Errorf("%s: status does not show the path MTU:\n%s", tt.attach, text)
	}
}

// checkAlpha wants the sender not to have learned of the tunnel.
func checkAlpha(t *testing.T, l *lab.Lab) {
	t.Helper()
	var routes []struct {
		Metrics []struct {
			MTU int `json:"mtu"`
		} `json:"metrics"`
	}
	text := must(t, l.Node("alpha"), "ip", "-6", "-json", "route", "get", "2001:db8:2::2")
	if err := json.Unmarshal([]byte(text), &routes); err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		for _, m := range r.Metrics {
			if m.MTU != 0 {
				t.Errorf("alpha believes that the path to beta carries %d bytes:\n%s", m.MTU, text)
			}
		}
	}
}

// A transfer through such a domain arrives, and nothing of it is lost twice.
func TestTransferByNarrowPath(t *testing.T) {
	t.Parallel()
	for _, tt := range transfers() {
		if tt.mode != "encap" {
			continue
		}
		t.Run(string(tt.attach), func(t *testing.T) {
			l := narrow(t, tt)
			beta := startScan(t, l, "beta", "eth0")
			for range 2 {
				if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: 16 << 20, Port: 9001}); err != nil {
					t.Fatal(err)
				}
			}
			beta.stop(t)
			if beta.packets.Load() == 0 || beta.ioamBytes.Load() > 0 {
				t.Errorf("beta received %d packets with %d bytes of IOAM", beta.packets.Load(), beta.ioamBytes.Load())
			}
			checkAlpha(t, l)
			if tt.attach == "xdp" { // which has alpha cut: its full packets become too big
				checkKnown(t, l, tt)
			} else if n := counter(t, l, "athos", "encap_tunneled"); n == 0 {
				t.Error("no large packet has a trace, and their segments fit the path")
			}
		})
	}
}
