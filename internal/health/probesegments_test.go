// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

// The probe finds segment routing, which other tests need, too, and leaves no route.
func TestProbeSegmentRouting(t *testing.T) {
	testnet.NeedRoot(t)
	before, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if s := probeSegmentRouting(); !s.Yes || s.Err != nil {
		t.Errorf("segment routing: %+v", s)
	}
	if now, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || now != before {
		t.Errorf("the thread is in %s, and was in %s: %v", now, before, err)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V6)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.Dst != nil && r.Dst.IP.Equal(net.ParseIP("2001:db8::")) {
			t.Errorf("the probe left the route %v", r)
		}
	}
}

func TestSegmentRoutingSupport(t *testing.T) {
	for _, tt := range []struct {
		err          error
		yes, unknown bool
	}{
		{nil, true, false},
		{fmt.Errorf("add a segment: %w", unix.EOPNOTSUPP), false, false},
		{fmt.Errorf("make a network namespace: %w", unix.EPERM), false, true},
		{errors.New("something else"), false, true},
	} {
		if s := segmentRoutingSupport(tt.err); s.Yes != tt.yes || (s.Err != nil) != tt.unknown {
			t.Errorf("%v: %+v", tt.err, s)
		}
	}
}
