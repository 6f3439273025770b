// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// Settled reads a counter once it no longer changes.
func Settled(t *testing.T, l *lab.Lab, node, outcome string) uint64 {
	t.Helper()
	var n uint64
	for since := 0; since < 5; since++ {
		if now := Counter(t, l, node, outcome); now != n {
			n, since = now, 0
		}
		time.Sleep(patience.Of(10 * time.Millisecond))
	}
	return n
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
	var s api.Status
	if err := json.Unmarshal([]byte(MustIn(t, l, node, "status", "--json")), &s); err != nil {
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
	place, err := l.Node(node).Place()
	if err != nil {
		t.Fatal(err)
	}
	status, err := api.NewClient(place.Socket()).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for _, i := range status.Interfaces {
		sum += i.Ingress[outcome] + i.Egress[outcome]
	}
	return sum
}
