// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// between is how long nodes select a flow differently while it is added or removed at each of
// them: two blocks and a half.
const between = 2500 * time.Millisecond

// TestNodesSelectDifferently adds a narrower flow at one node after the other, from the egress, and
// removes it in the same order, while packets are lost and while none is, and gives the flow a
// traffic class in one configuration alone. No block is called measured whose loss is another one
// than the links', however nodes exchange what they counted.
func TestNodesSelectDifferently(t *testing.T) {
	t.Parallel()
	for _, how := range []asking{
		{}, {exchange: "ipfix"},
		{exchange: "twamp-light", port: "1205", out: ", session: 1206", in: ", session: 1206"},
		{exchange: "rfc6374", port: "6374", out: ", session: 77", in: ", session: 77"},
	} {
		t.Run(cmp.Or(how.exchange, "stamp"), func(t *testing.T) {
			t.Parallel()
			l := raiseWith(t, "encap", "tcx", how)
			if how.exchange == "ipfix" {
				t.Run("loss by segment", func(t *testing.T) { exchangeByIPFIX(t, l) })
			}
			s := &sending{t: t, l: l}
			s.limits.Store([]int{64})
			s.start()
			const packets = "src 2001:db8:ff::1 segs " + endSID + "," + lastSID + " mode encap"
			places := [][3]string{{"egress", "in", "point 2"}, {"middle", "transit", "point 1 lastpoint 2"}, {"ingress", "out", "lastpoint 2"}}
			each := func(change func(node, direction, more string)) {
				for _, p := range places {
					more := "session 5"
					if how.exchange == "ipfix" {
						more += " " + p[2]
					}
					change(p[0], p[1], more)
					time.Sleep(patience.Of(between))
				}
			}
			add := func(node, direction, more string) {
				e2e.MustIn(t, l, node, append([]string{"flow", "add", "web", direction}, strings.Fields(packets+" tclass 0 "+more)...)...)
			}
			remove := func(node, _, _ string) { e2e.MustIn(t, l, node, "flow", "del", "web") }

			s.awaitMeasured("before", 0)
			begun := time.Now()
			each(add)
			s.awaitMeasured("with a narrower flow at all nodes", 0)
			s.check(
				"a narrower flow is added",
				begun,
				func(sent, lost uint64) bool { return lost == 0 },
				"a narrower flow there takes packets from it",
			)

			s.limits.Store([]int{64, 64, 2}) // the last one does not reach the egress
			s.awaitMeasured("with loss", 1)
			begun = time.Now()
			each(remove)
			s.awaitMeasured("without the narrower flow", 1)
			s.check(
				"it is removed",
				begun,
				func(sent, lost uint64) bool { return lost > sent/5 && lost < sent/2 },
				"no narrower flow there takes packets from it",
			)

			s.limits.Store([]int{64})
			s.awaitMeasured("without loss", 0)
			s.selectOneClass(how)
		})
	}
}

// sending sends packets of two classes all the time.
type sending struct {
	t      *testing.T
	l      *lab.Lab
	limits atomic.Value // []int, hop limits in turn
}

func (s *sending) start() {
	var ended atomic.Bool
	var done sync.WaitGroup
	done.Go(func() {
		for !ended.Load() {
			limits := s.limits.Load().([]int)
			for _, class := range []int{0, 0x20} {
				sendIn(s.t, s.l, class, 6, 64, limits...)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	s.t.Cleanup(func() { ended.Store(true); done.Wait() })
}

// results are those of blocks that began after a time, for the whole way.
func (s *sending) results(after time.Time) (list []*record.Loss) {
	text, err := os.ReadFile(filepath.Join(s.l.Directory(), "loss.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range bytes.Split(text, []byte("\n")) {
		if r, err := record.Parse(line); err == nil {
			if each, ok := r.(*record.Loss); ok && each.Flow == "red" && each.Scope == record.WholeWay && each.Start.After(after) {
				list = append(list, each)
			}
		}
	}
	return list
}

// awaitMeasured waits for a measured block that begins from now on, and has lost at least so many.
func (s *sending) awaitMeasured(what string, least uint64) {
	s.t.Helper()
	now := time.Now()
	e2e.Await(s.t, "a measured block "+what, 12*time.Second, func() bool {
		for _, r := range s.results(now) {
			if r.Verdict == loss.Measured && r.Sent.Value > 20 && r.Lost.Value >= least {
				return true
			}
		}
		return false
	})
}

// check checks the blocks since a time: each loss that is said is right, and some block says
// this difference.
func (s *sending) check(what string, since time.Time, right func(sent, lost uint64) bool, difference string) {
	s.t.Helper()
	said := false
	for _, r := range s.results(since) {
		if r.Verdict == loss.Measured && r.Sent.Value > 20 && !right(r.Sent.Value, r.Lost.Value) || r.Duplicated.Value > 0 {
			s.t.Errorf("%s: %+v", what, r)
		}
		said = said || r.Verdict == loss.Uncertain && r.ToReasons&loss.OtherSelection != 0
		if r.ToDifference != "" && !strings.Contains(r.ToDifference, difference) {
			s.t.Errorf("%s: %q, want %q", what, r.ToDifference, difference)
		}
	}
	if !said {
		s.t.Errorf("%s: no block says other_selection", what)
	}
}

// selectOneClass gives the flow a traffic class at the egress alone.
func (s *sending) selectOneClass(how asking) {
	s.t.Helper()
	more := "session 77"
	if how.exchange == "ipfix" {
		more += " point 2"
	} else if how.exchange == "twamp-light" {
		more = "session 1206"
	}
	begun := time.Now()
	e2e.MustIn(s.t, s.l, "egress", "flow", "del", "red")
	e2e.MustIn(
		s.t,
		s.l,
		"egress",
		append(
			[]string{"flow", "add", "red", "in", "src", "2001:db8:ff::1", "segs", endSID + "," + lastSID, "mode", "encap", "tclass", "0"},
			strings.Fields(more)...)...)
	const difference = "traffic class 0x00 instead of any"
	e2e.Await(s.t, "a block that says the class", 12*time.Second, func() bool {
		for _, r := range s.results(begun) {
			if r.ToDifference == difference && r.Sent.Value > r.Received.Value {
				return true
			}
		}
		return false
	})
	s.check("another class at the egress", begun, func(sent, lost uint64) bool { return lost == 0 }, difference)
	if how.exchange == "ipfix" {
		text, err := os.ReadFile(filepath.Join(s.l.Directory(), "notes"))
		if err != nil || !bytes.Contains(text, []byte(`"code":"selections_differ"`)) {
			s.t.Errorf("the collector does not warn (%v)", err)
		}
		return
	}
	warned := false
	for _, w := range e2e.StatusOf(s.t, s.l, "ingress").Warnings {
		warned = warned || w.Code == health.SelectionsDiffer && strings.Contains(w.Text, difference)
	}
	if !warned {
		s.t.Error("no warning names the difference")
	}
}
