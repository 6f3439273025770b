// SPDX-License-Identifier: Apache-2.0

package linkrelay

import (
	"container/heap"
	"slices"
	"time"
)

// queue holds frames until it is their turn. Times are those of any clock that only goes
// forward.
type queue struct {
	rule    Rule
	frames  heldFrames
	octets  int
	number  uint64 // of frames so far
	random  uint64 // state of the random numbers
	waiting []*heldFrame
	counts  Counts
	sum     uint64 // of times held
}

type heldFrame struct {
	data      []byte
	came, due time.Duration
	order     uint64 // among those that are due at a time
	overtaken uint32
	place     int
}

func newQueue(r Rule) *queue { return &queue{rule: r, random: r.Seed} }

// add takes a frame that came now.
func (q *queue) add(now time.Duration, data []byte) {
	q.number++
	f := &heldFrame{data: data, came: now, due: now, order: 2 * q.number}
	q.octets += len(data)
	if q.rule.Every == 0 {
		f.due += q.delay()
		heap.Push(&q.frames, f)
		return
	}
	if q.number%uint64(q.rule.Every) == 0 {
		f.due += q.rule.Hold
		q.waiting = append(q.waiting, f)
		heap.Push(&q.frames, f)
		return
	}
	heap.Push(&q.frames, f)
	q.waiting = slices.DeleteFunc(q.waiting, func(w *heldFrame) bool {
		if w.overtaken++; w.overtaken < q.rule.By {
			return false
		}
		w.due, w.order = now, f.order+1 // right after this one
		heap.Fix(&q.frames, w.place)
		return true
	})
}

// delay is a random time around the rule's delay.
func (q *queue) delay() time.Duration {
	if q.rule.Jitter == 0 {
		return q.rule.Delay
	}
	q.random += 0x9e3779b97f4a7c15 // SplitMix64
	z := q.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return q.rule.Delay - q.rule.Jitter + time.Duration(z%uint64(2*q.rule.Jitter+1))
}

// next removes the first frame that is due; nil without one.
func (q *queue) next(now time.Duration) []byte {
	if len(q.frames) == 0 || q.frames[0].due > now {
		return nil
	}
	f := heap.Pop(&q.frames).(*heldFrame)
	q.octets -= len(f.data)
	if q.rule.Every > 0 {
		if f.overtaken >= q.rule.By {
			q.counts.Overtaken++
		} else if i := slices.Index(q.waiting, f); i >= 0 {
			q.counts.OutOfTime++
			q.waiting = slices.Delete(q.waiting, i, i+1)
		}
	}
	held := uint64(now - f.came)
	if q.counts.Sent == 0 || held < q.counts.ShortestNS {
		q.counts.ShortestNS = held
	}
	q.counts.LongestNS = max(q.counts.LongestNS, held)
	q.sum += held
	q.counts.Sent++
	q.counts.MeanNS = q.sum / q.counts.Sent
	return f.data
}

// wait is how long it takes until a frame is due; false without frames.
func (q *queue) wait(now time.Duration) (time.Duration, bool) {
	if len(q.frames) == 0 {
		return 0, false
	}
	return max(0, q.frames[0].due-now), true
}

// heldFrames is a heap: the first that is due, and of several the first that came.
type heldFrames []*heldFrame

func (h heldFrames) Len() int { return len(h) }

func (h heldFrames) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].order < h[j].order
}

func (h heldFrames) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is for package heap.
func (h *heldFrames) Push(x any) {
	f := x.(*heldFrame)
	f.place = len(*h)
	*h = append(*h, f)
}

// Pop is for package heap.
func (h *heldFrames) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}
