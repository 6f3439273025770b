// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// A link inside the domain without room for the tunnel costs one datagram: after
// that, full datagrams pass without a trace and smaller ones have one.
func TestTunnelPathMTU(t *testing.T) {
	t.Parallel()
	full := lab.Traffic{
		Kind:     lab.KindUDP,
		From:     "alpha",
		To:       "beta",
		Count:    20,
		Interval: patience.Of(100 * time.Millisecond),
		Size:     1452,
		Port:     9000,
	}
	for _, tt := range e2e.Transfers() {
		if tt.Mode != "encap" {
			continue
		}
		t.Run(string(tt.Attach), func(t *testing.T) {
			l := narrow(t, tt)
			beta := e2e.StartScan(t, l, "beta", "eth0")
			r, err := l.Send(t.Context(), full)
			if err != nil || r.Lost() > 1 || r.Duplicate > 0 {
				t.Fatalf("full datagrams: %+v, %v; want at most one lost", r, err)
			}
			if n := e2e.Settled(t, l, "athos", "encap_tunneled"); n != 1 {
				t.Errorf("%d full datagrams were encapsulated, want the first", n)
			}
			e2e.CheckCounters(t, l, "athos", map[string]uint64{"encap_skipped_mtu": uint64(full.Count) - 1})
			checkKnown(t, l, tt)

			e2e.MustIn(t, l, "athos", "agent", "reload")
			full := full
			full.Count, full.Interval = 200, time.Millisecond
			small := full
			small.Size = 1500 - 120 - 48 // the largest that fits
			traces := e2e.Keep(t, l, "aramis")
			e2e.Send(t, l, "alpha", full, small)
			traces.Read(t, small.Count)
			checkAlpha(t, l)
			beta.Stop(t)
			if n := beta.IOAMBytes.Load(); n > 0 {
				t.Errorf("beta received %d bytes of IOAM", n)
			}
		})
	}
}

// checkKnown checks that athos reports the path's MTU, and what to do.
func checkKnown(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	s := e2e.StatusOf(t, l, "athos")
	if len(s.PathMTUs) != 1 || s.PathMTUs[0].MTU != 1500 || s.PathMTUs[0].Destination.String() != "2001:db8:ff::3" {
		t.Errorf("%s: path MTUs %+v, want 1500 to 2001:db8:ff::3", tt.Attach, s.PathMTUs)
	}
	if !slices.ContainsFunc(s.Warnings, func(w health.Warning) bool {
		return w.Code == health.PathMTULowered && strings.Contains(w.Cure, "MTU of 1620")
	}) {
		t.Errorf("%s: no warning with the MTU that links need: %+v", tt.Attach, s.Warnings)
	}
	if text := e2e.MustIn(t, l, "athos", "status", "--verbose"); !strings.Contains(text, "path MTU to 2001:db8:ff::3: 1500 bytes") {
		t.Errorf("%s: status does not show the path MTU:\n%s", tt.Attach, text)
	}
}

// checkAlpha checks that the sender did not learn of the tunnel.
func checkAlpha(t *testing.T, l *lab.Lab) {
	t.Helper()
	var routes []struct {
		Metrics []struct {
			MTU int `json:"mtu"`
		} `json:"metrics"`
	}
	text := e2e.Must(t, l.Node("alpha"), "ip", "-6", "-json", "route", "get", "2001:db8:2::2")
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

// A transfer through such a domain arrives without repeated losses.
func TestTransferByNarrowPath(t *testing.T) {
	t.Parallel()
	for _, tt := range e2e.Transfers() {
		if tt.Mode != "encap" {
			continue
		}
		t.Run(string(tt.Attach), func(t *testing.T) {
			l := narrow(t, tt)
			beta := e2e.StartScan(t, l, "beta", "eth0")
			for range 2 {
				if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: 16 << 20, Port: 9001}); err != nil {
					t.Fatal(err)
				}
			}
			beta.Stop(t)
			if beta.Packets.Load() == 0 || beta.IOAMBytes.Load() > 0 {
				t.Errorf("beta received %d packets with %d bytes of IOAM", beta.Packets.Load(), beta.IOAMBytes.Load())
			}
			checkAlpha(t, l)
			if tt.Attach == "xdp" { // which makes alpha segment: its full packets become too big
				checkKnown(t, l, tt)
			} else if n := e2e.Counter(t, l, "athos", "encap_tunneled"); n == 0 {
				t.Error("no large packet has a trace, and their segments fit the path")
			}
		})
	}
}

// narrow is `line` whose second inner link has the MTU of the edge: full packets
// that grew at athos are too big for porthos to forward.
func narrow(t *testing.T, tt e2e.Transfer) *lab.Lab {
	t.Helper()
	top := e2e.Domain(t, tt)
	e2e.SetMTU(top, 1500, 1700)
	for i := range top.Links {
		if ends := top.Links[i].Ends; ends[0].Node == "porthos" && ends[1].Node == "aramis" {
			top.Links[i].MTU = 1500
		}
	}
	return e2e.Raise(t, top)
}

// athos inserts headers into its own packets, on a path whose second link has MTU
// 1500: once athos has learned this, packets that would grow beyond it go without
// a header, and smaller ones have their traces.
func TestHostPathMTU(t *testing.T) {
	t.Parallel()
	const pathMTU, headers, insertion = 1500, 48, 80
	l := narrow(t, e2e.Transfer{Attach: e2e.TCModes()[0], Aramis: []string{"{id: 123}", "{id: 123, remove: true}"}})
	datagrams := lab.Traffic{Kind: lab.KindUDP, From: "athos", To: "beta", Count: 1, Size: pathMTU - headers, Port: 9000}
	if r, err := l.Send(t.Context(), datagrams); err == nil && r.Lost() == 0 {
		t.Fatalf("the first full datagram arrived, %+v; the host was to learn the MTU from its loss", r)
	}
	e2e.CheckCounters(t, l, "athos", map[string]uint64{"encap_inserted": 1})

	traces := e2e.Keep(t, l, "aramis")
	datagrams.Count, datagrams.Interval = 20, time.Millisecond
	skipped := uint64(0)
	for _, step := range []struct {
		size   int
		traced bool
	}{
		{pathMTU - headers, false},
		{pathMTU - headers - insertion, true},
		{pathMTU - headers - insertion + 1, false},
		{1280 - headers - insertion, true}, // the minimum MTU of IPv6
	} {
		datagrams.Size = step.size
		e2e.Send(t, l, "athos", datagrams)
		want := 0
		if step.traced {
			want = datagrams.Count
		} else {
			skipped += uint64(datagrams.Count)
		}
		e2e.CheckCounters(t, l, "athos", map[string]uint64{"encap_skipped_mtu": skipped})
		traces.Read(t, want)
	}
}
