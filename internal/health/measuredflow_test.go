// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// The cure is for the likeliest reason.
func TestFlowNotMeasured(t *testing.T) {
	block := FlowBlocks{Flow: "red", First: time.Unix(1_795_000_000, 0), Last: time.Unix(1_795_000_020, 0), Count: 3}
	for _, tt := range []struct {
		reasons []string
		cure    string
	}{
		{[]string{"missing"}, "stamp.allow"},
		{[]string{"other_path", "missing"}, "stamp.allow"},
		{[]string{"colour_missing"}, "measurement.mask"},
		{[]string{"guard_violated", "other_path"}, "measurement.guard"},
		{[]string{"clock_worse"}, "clock-error"},
		{[]string{"other_selection", "restarted"}, "waymark flow show"},
		{[]string{"restarted"}, "without a restart"},
		{[]string{"contradicting"}, "two nodes"},
		{[]string{"colour_out_of_turn"}, "compare the clocks"},
		{[]string{"of a later version"}, "waymark loss --flow red"},
		{nil, "the log"},
	} {
		ends := []string{"node 1 (::1): " + strings.Join(tt.reasons, ", ")}
		if tt.reasons == nil {
			ends = nil
		}
		w := FlowNotMeasured(block, ends, tt.reasons, nil)
		if !strings.Contains(w.Cure, tt.cure) || !strings.Contains(w.Text, strings.Join(tt.reasons, ", ")) ||
			!strings.Contains(w.Text, "for 3 blocks, since the one from 2026-11-18T11:06:40.000Z; in the block from 2026-11-18T11:07:00.000Z: ") {
			t.Errorf("%v: %+v", tt.reasons, w)
		}
	}
	if w := FlowNotMeasured(block, nil, nil, problem.New("port 1206 is taken", "choose another port")); !strings.HasSuffix(
		w.Text,
		"other nodes cannot be asked: port 1206 is taken",
	) ||
		w.Cure != "choose another port" {
		t.Errorf("%+v", w)
	}
}

// Warnings say in how many blocks since when, with the numbers of the last one.
func TestFlowBlocks(t *testing.T) {
	one := FlowBlocks{Flow: "red", First: time.Unix(1_795_000_000, 0), Last: time.Unix(1_795_000_000, 0), Count: 1, Results: "look"}
	more := one
	more.Last, more.Count = time.Unix(1_795_000_090, 0), 7
	for _, tt := range []struct {
		w    Warning
		want string
	}{
		{FlowLoss(one, 5, 1000, false, "0.1%", "5 of them between A and B"),
			"flow red lost 5 of 1000 packets (0.5%) in the block from 2026-11-18T11:06:40.000Z, more than max-loss: 0.1%; 5 of them between A and B"},
		{FlowLoss(more, 5, 1000, true, "0.1%", "where"),
			"flow red lost at least 5 of 1000 packets (0.5%) in the block from 2026-11-18T11:08:10.000Z, more than max-loss: 0.1%; where; so were 7 blocks since the one from 2026-11-18T11:06:40.000Z"},
		{FlowDuplicates(one, 1000, 3, "most of them between A and B"),
			"at least 3 packets of flow red came twice in the block from 2026-11-18T11:06:40.000Z, in which 1000 were sent, so it is not known how many of these were lost; most of them between A and B"},
		{FlowDelay(one, Slowness{Delay: 7 * time.Millisecond, Clocks: time.Millisecond}, "5ms"),
			"packets of flow red took 7ms on average in the block from 2026-11-18T11:06:40.000Z, more than max-delay: 5ms; the clocks of both ends differ by up to 1ms"},
		{FlowDelay(one, Slowness{Delay: 7 * time.Millisecond, AtLeast: true, Part: "between A and B"}, "5ms"),
			"packets of flow red took at least 7ms between A and B alone on average in the block"},
		{FlowDelay(one, Slowness{Delay: 7 * time.Millisecond, Tested: true}, "5ms"), "test packets of flow red took 7ms on average in the block"},
	} {
		if !strings.HasPrefix(tt.w.Text, tt.want) {
			t.Errorf("%s\nwant %s", tt.w.Text, tt.want)
		}
	}
}
