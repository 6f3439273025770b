// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// What athos itself sends gets its header inline, by a path whose second link
// carries 1500 bytes: once the host has learned that, packets that would grow
// beyond go on without, and smaller ones have their traces.
func TestHostPathMTU(t *testing.T) {
	t.Parallel()
	const pathMTU, headers, insertion = 1500, 48, 80
	l := narrow(t, e2e.Transfer{Attach: e2e.TCModes()[0], Aramis: []string{"{id: 123}", "{id: 123, remove: true}"}})
	datagrams := lab.Traffic{Kind: lab.KindUDP, From: "athos", To: "beta", Count: 1, Size: pathMTU - headers, Port: 9000}
	if r, err := l.Send(t.Context(), datagrams); err == nil && r.Lost() == 0 {
		t.Fatalf("the first full datagram arrived, %+v; it was to be what the host learns by", r)
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
		{1280 - headers - insertion, true}, // what every path carries
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
