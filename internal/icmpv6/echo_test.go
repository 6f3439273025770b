// SPDX-License-Identifier: Apache-2.0

package icmpv6

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/testnet"
)

// The kernel of this host replies; a host that is not there does not, and nor does one without a route.
func TestEchoes(t *testing.T) {
	alone(t, func() error {
		testnet.AddVeth(t, "here", "there", 1500)
		testnet.SetUp(t, "here", "2001:db8:1::1/64")
		testnet.SetUp(t, "there")
		testnet.Run(t, "ip -6 neighbour add 2001:db8:1::2 lladdr 02:00:00:00:00:02 dev here")
		own := netip.MustParseAddr("2001:db8:1::1")
		for _, from := range []netip.Addr{{}, own} {
			began := time.Now()
			if is, err := Echoes(t.Context(), own, "", from, 10*time.Second); err != nil || !is || time.Since(began) > 5*time.Second {
				t.Errorf("from %v: %v, %v", from, is, err)
			}
		}
		if is, err := Echoes(t.Context(), netip.MustParseAddr("2001:db8:1::2"), "", own, 200*time.Millisecond); is || err != nil {
			t.Errorf("silent: %v, %v", is, err)
		}
		if is, err := Echoes(t.Context(), netip.MustParseAddr("2001:db8::9"), "", netip.Addr{}, time.Second); is || err == nil {
			t.Errorf("without a route: %v, %v", is, err)
		}
		return nil
	})
}
