// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/internal/stamp/udp"
)

// Each cause by itself, and the first of several.
func TestCheck(t *testing.T) {
	allowed := []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("fe80::/10")}
	for _, tt := range []struct {
		name, peer, local string
		cut               bool
		some, all         Verdict // with prefixes, and without
	}{
		{"allowed", "[2001:db8:1::7]:862", "2001:db8::1", false, Admitted, Admitted},
		{"link-local", "[fe80::7]:1", "fe80::1", false, Admitted, Admitted},
		{"outside", "[2001:db8:2::7]:862", "2001:db8::1", false, NotAllowed, Admitted},
		{"the first address outside", "[2001:db8:2::]:862", "2001:db8::1", false, NotAllowed, Admitted},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:862", "2001:db8::1", false, NotAllowed, Admitted},
		{"no port", "[2001:db8:1::7]:0", "2001:db8::1", false, Unanswerable, Unanswerable},
		{"to a group", "[2001:db8:1::7]:862", "ff02::1", false, Unanswerable, Unanswerable},
		{"from a group", "[ff02::1]:862", "2001:db8::1", false, NotAllowed, Unanswerable},
		{"from nowhere", "[::]:862", "2001:db8::1", false, NotAllowed, Unanswerable},
		{"cut", "[2001:db8:1::7]:862", "2001:db8::1", true, Oversized, Oversized},
		{"cut, from outside", "[2001:db8:2::7]:862", "2001:db8::1", true, NotAllowed, Oversized},
		{"cut, without a port", "[2001:db8:1::7]:0", "2001:db8::1", true, Unanswerable, Unanswerable},
	} {
		d := &udp.Datagram{Peer: netip.MustParseAddrPort(tt.peer), Local: netip.MustParseAddr(tt.local), Cut: tt.cut}
		if some, all := Check(d, allowed), Check(d, nil); some != tt.some || all != tt.all {
			t.Errorf("%s: %d with prefixes, %d without; want %d and %d", tt.name, some, all, tt.some, tt.all)
		}
	}
}

const second = int64(1e9)

// A bucket has a tenth of a second's packets at once, then follows the rate, and saves no more
// up than that.
func TestBucket(t *testing.T) {
	b := Bucket{Rate: 100}
	takenAt := func(now int64) (taken int) {
		for range 1000 {
			if b.Allow(now) {
				taken++
			}
		}
		return taken
	}
	for _, tt := range []struct {
		at   int64
		want int
	}{
		{second, 10}, {second, 0}, {second + second/100, 1}, {second + second/50 - 10, 0}, {second + second/50 + 10, 1},
		{2 * second, 10}, {3600 * second, 10}, {3600*second - 1, 0}, // a clock that goes back gives nothing
	} {
		if got := takenAt(tt.at); got != tt.want {
			t.Errorf("%d packets at %v s, want %d", got, float64(tt.at)/1e9, tt.want)
		}
	}
	b = Bucket{Rate: 1}
	if got := takenAt(5 * second); got != 1 {
		t.Errorf("%d packets at once with one a second", got)
	}
	if got := takenAt(5*second + second/2); got != 0 {
		t.Errorf("%d packets after half a second", got)
	}
	b = Bucket{}
	if got := takenAt(0); got != 1000 {
		t.Errorf("without a limit, %d of 1000", got)
	}
}

// While more packets come than may be taken, as many are as the rate says and the bucket holds.
func TestBucketFollowsRate(t *testing.T) {
	r := rand.New(rand.NewPCG(862, 1))
	for range 50 {
		b := Bucket{Rate: 20 + r.IntN(100_000)}
		begin := 1 + r.Int64N(1<<50)
		now, taken := begin, 0
		for range 20_000 {
			now += r.Int64N(2 * second / int64(b.Rate) / 3) // more come than are taken
			if b.Allow(now) {
				taken++
			}
		}
		due := float64(now-begin)/1e9*float64(b.Rate) + float64(b.Rate)/10
		if float64(taken) > due+1 || float64(taken) < due-2 {
			t.Errorf("%d a second: %d taken, %.1f are due", b.Rate, taken, due)
		}
	}
}
