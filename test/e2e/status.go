// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// Settled reads a counter once it no longer changes.
func Settled(t *testing.T, l *lab.Lab, node, outcome string) uint64 {
	t.Helper()
	return settled(func() uint64 { return Counter(t, l, node, outcome) }, func(a, b uint64) bool { return a == b })
}

// settled reads something until it has been the same several times.
func settled[T any](read func() T, equal func(a, b T) bool) (last T) {
	for since := 0; since < 5; since++ {
		if now := read(); !equal(now, last) {
			last, since = now, 0
		}
		time.Sleep(patience.Of(10 * time.Millisecond))
	}
	return last
}

// CheckCounters checks the sums of outcomes over a node's interfaces.
func CheckCounters(t *testing.T, l *lab.Lab, node string, want map[string]uint64) {
	t.Helper()
	for outcome, n := range want {
		if got := Settled(t, l, node, outcome); got != n {
			t.Errorf("%s: %s %d, want %d", node, outcome, got, n)
		}
	}
}

// StatusOf is what the agent of a node reports about itself.
func StatusOf(t *testing.T, l *lab.Lab, node string) api.Status {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.NewClient(instance.Socket()).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// StatusInterface is one interface of a node's status.
func StatusInterface(t *testing.T, l *lab.Lab, node, name string) api.Interface {
	t.Helper()
	for _, i := range StatusOf(t, l, node).Interfaces {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("status of %s has no interface %s", node, name)
	return api.Interface{}
}

// Counter sums an outcome over a node's interfaces.
func Counter(t *testing.T, l *lab.Lab, node, outcome string) uint64 {
	t.Helper()
	return counters(t, l, node)[outcome]
}

// counters sums each outcome over a node's interfaces.
func counters(t *testing.T, l *lab.Lab, node string) map[string]uint64 {
	t.Helper()
	sum := make(map[string]uint64)
	for _, i := range StatusOf(t, l, node).Interfaces {
		for _, hook := range []map[string]uint64{i.Ingress, i.Egress} {
			for outcome, n := range hook {
				sum[outcome] += n
			}
		}
	}
	return sum
}

// Counted is what the nodes of a laboratory that several tests share count from a moment on.
type Counted struct {
	l      *lab.Lab
	before map[string]map[string]uint64 // by node and outcome
}

// CountedFrom waits until the nodes count nothing any more, which the test before may have sent, and
// counts from then on.
func CountedFrom(t *testing.T, l *lab.Lab, nodes ...string) *Counted {
	t.Helper()
	c := &Counted{l: l, before: make(map[string]map[string]uint64)}
	for _, node := range nodes {
		c.before[node] = settled(func() map[string]uint64 { return counters(t, l, node) }, maps.Equal)
	}
	return c
}

// Counter is Counter since then.
func (c *Counted) Counter(t *testing.T, node, outcome string) uint64 {
	t.Helper()
	return Counter(t, c.l, node, outcome) - c.before[node][outcome]
}

// Settled is Settled since then.
func (c *Counted) Settled(t *testing.T, node, outcome string) uint64 {
	t.Helper()
	return Settled(t, c.l, node, outcome) - c.before[node][outcome]
}

// Check is CheckCounters since then.
func (c *Counted) Check(t *testing.T, node string, want map[string]uint64) {
	t.Helper()
	for outcome, n := range want {
		if got := c.Settled(t, node, outcome); got != n {
			t.Errorf("%s: %s %d, want %d", node, outcome, got, n)
		}
	}
}
