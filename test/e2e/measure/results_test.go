// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// part is a segment of a flow's path, by its first and last node.
type part struct {
	flow     string
	from, to loss.PointID
}

// results are the records of loss and delay of a lab's ingress.
type results struct {
	mu     sync.Mutex
	losses map[part][]*record.Loss
	delays map[part][]*record.Delay
}

// observe collects the results until the test ends.
func observe(t *testing.T, l *lab.Lab) *results {
	t.Helper()
	instance, err := l.Node("ingress").Instance()
	if err != nil {
		t.Fatal(err)
	}
	r := &results{losses: make(map[part][]*record.Loss), delays: make(map[part][]*record.Delay)}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		err := api.NewClient(instance.Socket()).Observe(ctx, api.RecordFilter{}, nil, r.addRecord)
		if ctx.Err() == nil {
			t.Errorf("the agent of ingress ended: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return r
}

func (r *results) addRecord(line []byte) error {
	parsed, err := record.Parse(line)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch m := parsed.(type) {
	case *record.Loss:
		p := part{m.Flow, m.From, m.To}
		r.losses[p] = append(r.losses[p], m)
	case *record.Delay:
		p := part{m.Flow, m.From, m.To}
		r.delays[p] = append(r.delays[p], m)
	}
	return nil
}

// lossesOf and delaysOf are the results so far.
func (r *results) lossesOf(p part) []*record.Loss {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.losses[p][:len(r.losses[p]):len(r.losses[p])]
}

func (r *results) delaysOf(p part) []*record.Delay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delays[p][:len(r.delays[p]):len(r.delays[p])]
}

// awaitExact waits until a block of each flow is exact.
func (r *results) awaitExact(t *testing.T, whole ...part) {
	t.Helper()
	for _, p := range whole {
		e2e.Await(t, "an exact block of "+p.flow, 10*time.Second, func() bool {
			list := r.lossesOf(p)
			return len(list) > 0 && list[len(list)-1].Verdict.Exact()
		})
	}
}

// awaitAfter waits until the results of all blocks up to a time are known.
func (r *results) awaitAfter(t *testing.T, at time.Time, whole ...part) {
	t.Helper()
	for _, p := range whole {
		e2e.Await(t, "the results of "+p.flow, 10*time.Second, func() bool {
			list := r.lossesOf(p)
			return len(list) > 0 && list[len(list)-1].Start.After(at)
		})
	}
}

// sum adds up a part's blocks with packets since a time, all of which must be exact. Of a few, on a busy machine,
// a node may not see in time that its programs ran: what was counted in these is compared all the same.
func (r *results) sum(t *testing.T, p part, since time.Time) (sent, lost uint64, blocks int) {
	t.Helper()
	unseen := 0
	for _, l := range r.lossesOf(p) {
		if l.Start.Add(time.Duration(l.Length)).Before(since) || l.Sent.Value+l.Received.Value == 0 {
			continue
		}
		if l.Verdict == loss.Uncertain && l.FromReasons|l.ToReasons == loss.NotExecuted && l.Sent.Valid && l.Received.Valid {
			t.Logf("%v, block %d: uncertain, because a node did not see in time that its programs ran", p, l.Block.Value)
			sent, lost, blocks, unseen = sent+l.Sent.Value, lost+l.Sent.Value-l.Received.Value, blocks+1, unseen+1
			continue
		}
		if l.Verdict != loss.Measured {
			t.Errorf(
				"%v, block %d: %v because of %v %v, %d sent, %d received",
				p,
				l.Block.Value,
				l.Verdict,
				l.FromReasons,
				l.ToReasons,
				l.Sent.Value,
				l.Received.Value,
			)
		}
		if l.Duplicated.Value > 0 {
			t.Errorf("%v, block %d: %d duplicated", p, l.Block.Value, l.Duplicated.Value)
		}
		sent, lost, blocks = sent+l.Sent.Value, lost+l.Lost.Value, blocks+1
	}
	if unseen > max(1, blocks/4) {
		t.Errorf("%v: %d of %d blocks are uncertain, because nodes did not see in time that their programs ran", p, unseen, blocks)
	}
	return sent, lost, blocks
}
