// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
)

// longest is the longest interval of a stream.
const longest = time.Hour

func (q *Queues) getQueues(w http.ResponseWriter, r *http.Request) error {
	interval := period
	for key, values := range r.URL.Query() {
		if key != "interval" || len(values) != 1 {
			return service.BadRequest(problem.New(fmt.Sprintf("%s: unknown, or given twice", key), "use interval"))
		}
	}
	if text := r.URL.Query().Get("interval"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < period || d > longest {
			return service.BadRequest(problem.New(
				fmt.Sprintf("interval=%s is not valid", text),
				fmt.Sprintf("use a time from %v to %v, such as 10s", period, longest),
			))
		}
		interval = d
	}
	if !q.enter() {
		return service.Refused(problem.New(fmt.Sprintf("%d clients follow the queues, the maximum", mostWatchers), "end one of them"))
	}
	defer q.leave()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	q.stream(r.Context(), w, interval)
	return nil
}

// enter begins a stream, and the measurement.
func (q *Queues) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watchers == mostWatchers {
		return false
	}
	q.watchers++
	q.wakeUp()
	return true
}

func (q *Queues) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watchers--
	q.wakeUp()
}

// stream writes what is counted in each interval, until the client or the agent ends.
func (q *Queues) stream(ctx context.Context, w http.ResponseWriter, interval time.Duration) {
	control, encoder := http.NewResponseController(w), json.NewEncoder(w)
	each := time.NewTicker(interval)
	defer each.Stop()
	before := q.copies()
	for control.Flush() == nil {
		select {
		case <-ctx.Done():
			return
		case <-q.closing:
			return
		case now := <-each.C:
			q.follow()
			after := q.copies()
			if encoder.Encode(q.between(before, after, now, interval)) != nil {
				return
			}
			before = after
		}
	}
}

// copies are the totals now.
func (q *Queues) copies() map[string]*totals {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.copiesLocked()
}

func (q *Queues) copiesLocked() map[string]*totals {
	all := make(map[string]*totals, len(q.totals))
	for name, t := range q.totals {
		c := *t
		c.waits = maps.Clone(t.waits)
		all[name] = &c
	}
	return all
}

// between is what was counted between two copies.
func (q *Queues) between(before, after map[string]*totals, now time.Time, interval time.Duration) api.Queues {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := api.Queues{
		Time:       instant.Of(now),
		Interval:   int64(interval),
		Measuring:  q.meter != nil,
		Fault:      q.fault,
		Interfaces: []api.QueueDelay{},
	}
	state := q.d.State.Load()
	if state == nil {
		return out
	}
	for _, in := range state.Resolved.Node.Interfaces {
		t, ok := after[in.Name]
		if !ok {
			continue
		}
		counted := t.minus(before[in.Name])
		waits := queue.Waits{Packets: counted.packets, Buckets: counted.histogram().Buckets}
		one := api.QueueDelay{
			Interface: in.Name,
			Packets:   counted.packets,
			Untimed:   counted.untimed,
			Dropped:   counted.dropped,
			Unfit:     counted.unfit,
		}
		if counted.packets > 0 {
			one.Mean = new(int64)
			*one.Mean = int64(counted.total / counted.packets)
			for rank, to := range map[float64]**int64{0.5: &one.P50, 0.95: &one.P95, 0.99: &one.P99, 1: &one.Max} {
				value := int64(waits.Quantile(rank))
				*to = &value
			}
		}
		out.Interfaces = append(out.Interfaces, one)
	}
	slices.SortFunc(out.Interfaces, func(a, b api.QueueDelay) int { return compareWorst(a, b) })
	return out
}

// compareWorst puts the queue with the longest waits first.
func compareWorst(a, b api.QueueDelay) int {
	value := func(q api.QueueDelay) int64 {
		if q.P99 == nil {
			return -1
		}
		return *q.P99
	}
	return int(max(min(value(b)-value(a), 1), -1))
}
