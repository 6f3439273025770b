// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const inside = "WAYMARK_EXPORT_TEST_NAMESPACE"

// inNamespace runs a test again in a network namespace of its own, with others
// beside it; it tells whether this is that run.
func inNamespace(t *testing.T, others ...string) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	name := fmt.Sprintf("wm-export-%d", os.Getpid())
	for _, other := range append([]string{""}, others...) {
		ip(t, "netns", "add", name+other)
		defer ip(t, "netns", "delete", name+other)
	}
	cmd := exec.Command("ip", "netns", "exec", name, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+name)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	return false
}

// beside is the name of a namespace beside that of the test.
func beside(other string) string { return os.Getenv(inside) + other }

func ip(t *testing.T, args ...string) {
	t.Helper()
	if b, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s (network namespaces need root)", strings.Join(args, " "), err, b)
	}
}

func setMTU(t *testing.T, mtu int) {
	t.Helper()
	ip(t, "link", "set", "lo", "up", "mtu", fmt.Sprint(mtu))
}

// Messages are as long as the path MTU lets them be, and none is lost when that
// falls.
func TestPathMTU(t *testing.T) {
	if !inNamespace(t) {
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
		r, x := newReceiver(t), newIPFIX(t)
		c := newCollector(t, x, CollectorConfig{Transport: UDP, Address: r.udp(tt.address), MessageSize: tt.size})
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
			t.Errorf("%+v: messages of up to %d octets behind the change", tt, n)
		}
		stop()
		if s := check(t, c); s.Written != 6000 || r.missed != 0 {
			t.Errorf("%+v: %+v, missed %d", tt, s, r.missed)
		}
		r.close()
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
