// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// watched returns a collector with thresholds. The function block sends it the records of
// three points about the next block: how many packets each counted, with this mean delay
// from the first point to the last.
func watched(t *testing.T) (c *Collector, out *memory, block func(flow string, packets [3]uint64, delay time.Duration)) {
	t.Helper()
	share, limit := loss.Share(1000), 20*time.Millisecond
	c, out, send := offline(
		t,
		Config{Join: join.Config{Wait: maxBlockWait}, Thresholds: loss.Thresholds{MaxLoss: &share, MaxDelay: &limit}},
		ipfix.UDP,
	)
	x, next := newBlockExporter(t), map[string]int64{}
	return c, out, func(flow string, packets [3]uint64, delay time.Duration) {
		t.Helper()
		if next[flow] == 0 {
			next[flow] = time.Now().UnixNano()/int64(blockLength) - 20
		}
		var list []*record.Block
		for point, n := range packets {
			b := counted(flow, next[flow], loss.PointID(point), 2, n)
			b.DelayPackets, b.DelayTimeSum = 1, int64(delay)/2*int64(point)
			b.ClockError = record.NewField(uint64(time.Millisecond), true)
			b.TimeSum = record.NewField(int64(n)*int64(delay)/2*int64(point), true)
			list = append(list, b)
		}
		send(x.message(list...))
		c.flush(time.Now())
		next[flow]++
	}
}

// said are the warnings so far, and the codes in records of the whole way.
func said(out *memory) (warnings []*record.Warning, codes []string) {
	for _, each := range out.all() {
		switch each := each.(type) {
		case *record.Warning:
			warnings = append(warnings, each)
		case *record.Loss:
			if each.Scope == record.WholeWay {
				codes = append(codes, each.Warning)
			} else if each.Warning != "" {
				codes = append(codes, "of a segment: "+each.Warning)
			}
		case *record.Delay:
			if each.Warning != "" {
				codes = append(codes, each.Warning)
			}
		}
	}
	return warnings, codes
}

// A flow that loses more than it may has one warning, which names the segment that loses
// most, until three blocks in a row lost less. So it is with delay. What is not compared any
// more has no warning, and none of them says that a loss has ended.
func TestThresholds(t *testing.T) {
	c, out, block := watched(t)
	block("red", [3]uint64{1000, 1000, 999}, 10*time.Millisecond) // exactly the threshold
	block("red", [3]uint64{1000, 999, 900}, 10*time.Millisecond)
	block("red", [3]uint64{1000, 998, 998}, 10*time.Millisecond)
	for range loss.CalmBlocks {
		block("red", [3]uint64{1000, 1000, 1000}, 10*time.Millisecond)
	}
	block("slow", [3]uint64{10, 10, 10}, 30*time.Millisecond)
	block("twice", [3]uint64{1000, 1000, 1005}, 10*time.Millisecond)
	block("twice", [3]uint64{1000, 990, 1005}, 10*time.Millisecond)
	for range loss.CalmBlocks {
		block("twice", [3]uint64{0, 0, 0}, 0)
	}
	warnings, codes := said(out)
	if want := []string{"", "flow_loss_high", "flow_loss_high", "", "", "", "", "flow_delay_high", "flow_duplicated", "flow_loss_high", "",
		"", ""}; !slices.Equal(
		codes,
		want,
	) {
		t.Errorf("records have the codes %q, want %q", codes, want)
	}
	want := []string{
		"flow_loss_high: flow red lost 100 of 1000 packets (10%) in the block from TIME, more than max-loss: 0.1%; 99 of them between points 1 and 2; " +
			"look for the cause there (the records of each block show each segment), or raise max-loss\n",
		"flow_loss_high has ended: flow red is within its threshold again\n",
		"flow_delay_high: packets of flow slow took 30ms on average in the block from TIME, more than max-delay: 20ms; the clocks of both ends differ by up to 2ms; " +
			"look for full queues and longer ways (the records of each block show each segment), or raise max-delay\n",
		"flow_duplicated: at least 5 packets of flow twice came twice in the block from TIME, in which 1000 were sent, so it is not known how many of these were lost; " +
			"5 more came than were sent between points 1 and 2; look there for what sends packets twice, such as a loop of bridges or a mirrored port (the records of each block show each segment)\n",
		"flow_loss_high: flow twice lost at least 10 of 1000 packets (1%) in the block from TIME, more than max-loss: 0.1%; 10 of them between points 0 and 1; " +
			"look for the cause there (the records of each block show each segment), or raise max-loss\n",
		"flow_loss_high has ended: flow twice has no packets any more\n",
		"flow_duplicated has ended: flow twice has no packets any more\n",
	}
	var got []string
	for _, w := range warnings {
		text := w.Text()
		if _, rest, ok := strings.Cut(text, "in the block from "); ok {
			at, _, _ := strings.Cut(rest, ",")
			text = strings.Replace(text, at, "TIME", 1)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%swant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
	if w := warnings[0]; !w.Beyond || warnings[1].Beyond || w.Flow != "red" || w.FlowID != 7 || w.Code != "flow_loss_high" || w.Time.IsZero() {
		t.Errorf("%+v", w)
	}
	checkBeyond(t, c, 0, 1)
	c.change(func() { c.blocks.expire(time.Now().Add(time.Hour)) })
	warnings, _ = said(out)
	if last := warnings[len(warnings)-1]; len(warnings) != 8 || last.Beyond ||
		last.Text() != "flow_delay_high: it is not known whether flow slow is still beyond its threshold: "+
			"it has not been reported by any of its nodes for 10 blocks; if it was not removed there, look whether these nodes run and export\n" {
		t.Errorf("%d warnings, the last is %s", len(warnings), last.Text())
	}
	checkBeyond(t, c, 0, 0)
	if c.blocks.size != 0 {
		t.Errorf("%d octets are kept", c.blocks.size)
	}
}

// A flow that makes room for another, or has another guard from now on, may lose as much as
// before: the collector says what happened, and counts the flow no more.
func TestForgottenFlowsHaveNotCalmed(t *testing.T) {
	c, out, block := watched(t)
	block("red", [3]uint64{1000, 1000, 900}, 10*time.Millisecond)
	checkBeyond(t, c, 1, 0)
	c.blocks.room = c.blocks.size
	block("blue", [3]uint64{1000, 1000, 900}, 10*time.Millisecond)
	checkBeyond(t, c, 1, 0) // blue
	if s := c.Stats().Compared; s.evicted != 1 || s.ended != 0 {
		t.Errorf("%+v", s)
	}
	again := counted("blue", time.Now().UnixNano()/int64(blockLength)-2, 0, 2, 1)
	again.Guard /= 2
	c.change(func() { c.blocks.add(again, time.Now()) })
	checkBeyond(t, c, 0, 0)
	var ends []string
	warnings, _ := said(out)
	for _, w := range warnings {
		if !w.Beyond {
			ends = append(ends, w.Text())
		}
	}
	want := []string{
		"flow_loss_high: it is not known whether flow red is still beyond its threshold: it made room for others in this collector's memory; let another collector take some of the flows\n",
		"flow_loss_high: it is not known whether flow blue is still beyond its threshold: it is compared anew, because its ingress has another guard; wait for its next blocks\n",
	}
	if !slices.Equal(ends, want) {
		t.Errorf("got  %q\nwant %q", ends, want)
	}
}

// checkBeyond compares the metric.
func checkBeyond(t *testing.T, c *Collector, ofLoss, ofDelay int) {
	t.Helper()
	answer := httptest.NewRecorder()
	metrics.Handler(c.Collect).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	for code, n := range map[string]int{"flow_loss_high": ofLoss, "flow_delay_high": ofDelay} {
		if want := fmt.Sprintf("waymark_collect_flows_beyond_threshold{code=%q} %d\n", code, n); !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Without thresholds, nothing is warned of, whatever is lost.
func TestNoThresholds(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	number := time.Now().UnixNano()/int64(blockLength) - 1
	send(newBlockExporter(t).message(counted("red", number, 0, 1, 10), counted("red", number, 1, 1, 0)))
	c.flush(time.Now())
	if warnings, codes := said(out); len(warnings) != 0 || !slices.Equal(codes, []string{""}) {
		t.Errorf("%v, %q", warnings, codes)
	}
	checkBeyond(t, c, 0, 0)
}
