// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKernelNotInXDP judges the kernel by its answer: only one that does not know the family forwards nothing.
func TestKernelNotInXDP(t *testing.T) {
	for _, tt := range []struct {
		err   error
		fault bool
	}{
		{nil, false},
		{unix.ENOENT, true},
		{fmt.Errorf("ask: %w", unix.ENOENT), true},
		{unix.EPERM, false},
		{unix.ENOBUFS, false},
	} {
		if got := notReported(nil, tt.err); (got != "") != tt.fault {
			t.Errorf("%v: %q", tt.err, got)
		}
	}
	if why := notReported(nil, unix.ENOENT); !strings.Contains(why, "set attach: clsact") {
		t.Errorf("no cure: %s", why)
	}
}

// TestOnlyInTC takes tc where the kernel is what keeps XDP from forwarding, and not where the device is.
func TestOnlyInTC(t *testing.T) {
	was := kernelNotInXDP
	t.Cleanup(func() { kernelNotInXDP = was })
	for _, why := range []string{"", "the kernel is old"} {
		kernelNotInXDP = func() string { return why }
		for name, tt := range map[string]struct {
			device Device
			want   bool
		}{
			"to the stack":       {Ethernet(1), false},
			"fast":               {FastEthernet(1), why != ""},
			"not routed":         {Device{Fast: true, notRouted: "a member", notInXDP: why}, false},
			"hides tags":         {Device{Fast: true, notInXDP: "tags"}, false},
			"fast, not asked to": {Device{notInXDP: why}, false},
		} {
			if got := tt.device.OnlyInTC(); got != tt.want {
				t.Errorf("kernel %q, %s: %v", why, name, got)
			}
		}
		if got := FastEthernet(1).FastIn(XDP); got != (why == "") {
			t.Errorf("kernel %q: forwards in XDP %v", why, got)
		}
		if !FastEthernet(1).FastIn(Clsact) {
			t.Errorf("kernel %q: does not forward in tc", why)
		}
	}
}
