// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// What a queue drops within a minute is warned of, not what it had dropped before the first look, nor single packets; also
// after another queue took its place.
func TestDropsAreWarnedOf(t *testing.T) {
	served := []model.Interface{{Index: 2, Name: "eth0"}}
	for name, tt := range map[string]struct {
		dropped []uint64 // at each look
		want    string   // "" for no warning
	}{
		"before":                 {[]uint64{500, 500, 500}, ""},
		"single packets":         {[]uint64{500, 505, 509}, ""},
		"many":                   {[]uint64{500, 505, 517}, "the queue of eth0 (tbf) dropped 17 packets in the last minute"},
		"another queue":          {[]uint64{500, 12, 14}, "dropped 14 packets"},
		"another one, few":       {[]uint64{500, 3, 4}, ""},
		"longer than a minute":   {append([]uint64{0, 100}, slices.Repeat([]uint64{100}, 20)...), ""},
		"at the last look again": {append([]uint64{0, 100}, append(slices.Repeat([]uint64{100}, 20), 130)...), "dropped 30 packets"},
	} {
		var d drops
		now := time.Unix(1000, 0)
		for i, n := range tt.dropped {
			if !d.due(now) {
				t.Errorf("%s: look %d is not due", name, i)
			}
			d.add(served, map[model.IfIndex]queue.Discipline{2: {Kind: "tbf", Dropped: n}, 4: {Kind: "tbf", Dropped: uint64(i) * 1000}}, now)
			if d.due(now.Add(time.Second)) {
				t.Errorf("%s: another look is due at once", name)
			}
			now = now.Add(10 * time.Second)
		}
		ws := d.warnings(served)
		switch {
		case tt.want == "" && len(ws) > 0:
			t.Errorf("%s: %+v", name, ws)
		case tt.want != "" && (len(ws) != 1 || ws[0].Code != health.QueueDrops || ws[0].Interface != "eth0" ||
			!strings.Contains(ws[0].Text, tt.want)):
			t.Errorf("%s: %+v, want %q", name, ws, tt.want)
		}
		if ws := d.warnings(nil); len(ws) > 0 {
			t.Errorf("%s: of an interface that is not served: %+v", name, ws)
		}
	}
}

// The service looks also while no queue is measured, and logs once that one drops packets.
func TestDropsAreLoggedOnce(t *testing.T) {
	n, m, q := newHarness(t, agenttest.BaseConfig)
	for i := range 4 {
		m.set(func() { m.disciplines[2] = queue.Discipline{Kind: "fq_codel", Dropped: uint64(i) * 100} })
		q.drops.mu.Lock()
		q.drops.sampled = time.Time{}
		q.drops.mu.Unlock()
		q.wakeUp()
		eventually(t, "a look", func() bool { q.drops.mu.Lock(); defer q.drops.mu.Unlock(); return !q.drops.sampled.IsZero() })
	}
	if m.measuring() {
		t.Error("queues are measured")
	}
	if ws := q.Warnings(q.d.State.Load()); len(ws) != 1 || ws[0].Code != health.QueueDrops {
		t.Errorf("%+v", ws)
	}
	eventually(t, "a line of the log", func() bool { return strings.Contains(n.Log.String(), "warning=queue_drops") })
	if text := n.Log.String(); strings.Count(text, "warning=queue_drops") != 1 {
		t.Errorf("the log says\n%s", text)
	}
}
