// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"fmt"
	"testing"

	"github.com/waymark-net/waymark/test/testnet"
)

func setMTU(t *testing.T, mtu int) {
	t.Helper()
	testnet.Run(t, fmt.Sprintf("ip link set lo up mtu %d", mtu))
}

// Messages are as long as the path MTU allows, and none is lost when it falls.
func TestPathMTU(t *testing.T) {
	if !testnet.Process(t) {
		return
	}
	for _, tt := range []struct {
		address        string
		size           int
		before, behind int // the greatest messages
	}{
		{"[::1]:0", 0, 1500 - 48, 1300 - 48},
		{"127.0.0.1:0", 0, 1500 - 28, 1300 - 28},
		{"[::1]:0", 1280, 1280, 1300 - 48},
		{"[::1]:0", 600, 600, 600},
	} {
		setMTU(t, 1500)
		r, x := newReceiver(t), newEncoder(t)
		c := newCollector(t, x, Config{Transport: UDP, Address: r.udp(tt.address), MessageSize: tt.size})
		stop := run(c)
		p := postcard(t)
		offer(x, c, p, 2000)
		waitFor(t, "receiving", func() bool { return r.records() == 2000 })
		if n := r.longest(0); n > tt.before || n <= tt.before-130 {
			t.Errorf("%+v: messages of up to %d octets", tt, n)
		}
		setMTU(t, 1300)
		offer(x, c, p, 2000)
		waitFor(t, "receiving", func() bool { return r.records() == 4000 })
		count := r.count()
		offer(x, c, p, 2000)
		waitFor(t, "receiving", func() bool { return r.records() == 6000 })
		if n := r.longest(count); n > tt.behind || n <= tt.behind-130 {
			t.Errorf("%+v: messages of up to %d octets after the change", tt, n)
		}
		stop()
		r.close()
		if s := check(t, c); s.Written != 6000 || r.missed != 0 {
			t.Errorf("%+v: %+v, missed %d", tt, s, r.missed)
		}
	}
}

// longest is the length of the longest message from an index on.
func (r *receiver) longest(from int) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages[from:] {
		n = max(n, m.Length)
	}
	return n
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.messages)
}
