// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// sent is a packet with a Direct Export on a link: its outer source address and
// the option.
type sent struct {
	source netip.Addr
	option ioam.DirectExport
}

// sentList collects the packets with a Direct Export that a node receives.
type sentList struct {
	mu   sync.Mutex
	list []sent
}

func (s *sentList) see(p lab.Packet) {
	const ethernet, fixed = 14, 40
	if p.Outgoing || len(p.Data) < ethernet+fixed {
		return
	}
	ip := p.Data[ethernet:]
	header, err := ioam.DecodeExtensionHeader(ip[fixed:])
	if err != nil || ioam.NextHeader(ip[6]) != ioam.NextHeaderHopByHop {
		return
	}
	for option, err := range header.Options() {
		if err != nil {
			return
		}
		o, err := option.IOAM()
		if err != nil {
			continue
		}
		if d, err := o.DirectExport(); err == nil {
			s.mu.Lock()
			s.list = append(s.list, sent{netip.AddrFrom16([16]byte(ip[8:24])), d})
			s.mu.Unlock()
		}
	}
}

func (s *sentList) all() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// A rule in the command syntax of the DEX paper puts packets into a tunnel from
// the address that the kernel would choose. When that address changes, so does
// the tunnel's, and Sequence Numbers continue.
func TestDirectExportFromDerivedSource(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	var seen sentList
	capture, err := l.Capture("porthos", "eth0", lab.CaptureOptions{Each: seen.see})
	if err != nil {
		t.Fatal(err)
	}
	beta := e2e.StartScan(t, l, "beta", "eth0")
	e2e.MustIn(
		t,
		l,
		"athos",
		"route",
		"add",
		"2001:db8:2::2/128",
		"dport",
		"9000",
		"encap",
		"ioam6",
		"mode",
		"encap",
		"tundst",
		"2001:db8:ff::3",
		"dex",
		"ns",
		"123",
		"trace-type",
		"0xc00000",
		"ext-flags",
		"0xc0",
		"dev",
		"eth1",
		"name",
		"dex",
	)

	few := lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 5, Interval: time.Millisecond, Size: 100, Port: 9000}
	link, own := netip.MustParseAddr("2001:db8:12::1"), netip.MustParseAddr("2001:db8:ff::1")
	shows := func(source netip.Addr) bool {
		if r, err := l.Send(t.Context(), few); err != nil || r.Lost() > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		list := seen.all()
		return len(list) >= few.Count && list[len(list)-1].source == source
	}
	within := func(source netip.Addr) {
		t.Helper()
		for end := time.Now().Add(patience.Of(15 * time.Second)); !shows(source); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no tunnel from %v: %+v", source, seen.all())
			}
		}
	}
	within(link)
	e2e.Must(t, l.Node("athos"), "ip", "-6", "route", "replace", "2001:db8:ff::3/128", "via", "2001:db8:12::2", "src", own.String())
	within(own)

	if _, err := capture.Stop(); err != nil {
		t.Fatal(err)
	}
	next := map[uint32]uint32{}
	for i, s := range seen.all() {
		d := s.option
		if d.Namespace != 123 || d.Type != 0xc00000 || d.ExtensionFlags != 0xc0 || d.Flags != 0 || d.FlowID == 0 || d.Sequence != next[d.FlowID] {
			t.Fatalf("packet %d: %+v, want the sequence number %d", i, d, next[d.FlowID])
		}
		next[d.FlowID]++
	}
	beta.Stop(t)
	if n := beta.IOAMBytes.Load(); n > 0 {
		t.Errorf("beta received %d bytes of IOAM", n)
	}
}
