// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

// The probe finds clsact, and leaves the loopback interface of this namespace as it was.
func TestProbeClsact(t *testing.T) {
	testnet.NeedRoot(t)
	if s := probeClsact(); !s.Yes || s.Err != nil {
		t.Errorf("clsact: %+v", s)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	qdiscs, err := netlink.QdiscList(loopback)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range qdiscs {
		if q.Type() == "clsact" {
			t.Error("the probe left its qdisc at this machine's loopback interface")
		}
	}
}

func TestClsactSupport(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "yes"},
		{fmt.Errorf("add clsact: %w", unix.ENOENT), "no"},
		{fmt.Errorf("make a network namespace: %w", unix.EPERM), "unknown"},
		{errors.New("something else"), "unknown"},
	} {
		s, got := clsactSupport(tt.err), "no"
		if s.Yes {
			got = "yes"
		} else if s.Err != nil {
			got = "unknown"
		}
		if got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
