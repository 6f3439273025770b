// SPDX-License-Identifier: Apache-2.0

package monitor

import "time"

// flow is one flow of probes to a destination: one source port and flow label, and so, while
// routes stay, one path.
type flow struct {
	ring         []probe       // by number
	next         uint32        // number of the next probe
	tail         uint32        // of the oldest one that is not settled
	overdueEnd   uint32        // of the first one that is not overdue
	answeredEnd  uint32        // of the one after the newest that was answered, or 0
	path         *path         // as the last answer showed it; nil: no answer came yet
	place        *place        // where its probes vanish; nil: they are answered, or it is not known yet that they are not
	overdueSince time.Duration // when the first probe was sent that is overdue, if there is one
}

// probe waits for its answer.
type probe struct {
	sent     time.Duration
	answered bool
}

// renew replaces the flows, as they have other ports now. Paths stay, without flows.
func (d *destination) renew(c Config, now time.Duration) {
	d.flows = make([]flow, c.Flows)
	for _, p := range d.paths {
		p.flows, p.search, p.left = 0, nil, now
	}
	d.places, d.unknownPath, d.moves = nil, nil, moves{}
	d.began = now
	d.resize(c)
}

// resize makes room for the probes that may wait, and forgets those that do.
func (d *destination) resize(c Config) {
	size := int(c.Timeout/c.Interval) + 3
	for i := range d.flows {
		f := &d.flows[i]
		if len(f.ring) == size {
			continue
		}
		f.ring = make([]probe, size)
		for j := range f.ring {
			f.ring[j].answered = true
		}
		f.tail, f.overdueEnd, f.answeredEnd = f.next, f.next, f.next
	}
}

func (f *flow) probe(n uint32) *probe { return &f.ring[n%uint32(len(f.ring))] }

// send notes a probe, and returns its number. Probes whose place it takes are given up.
func (f *flow) send(now time.Duration) (number uint32, gaveUp int) {
	for f.next-f.tail >= uint32(len(f.ring)) {
		gaveUp += f.settleOldest()
	}
	n := f.next
	*f.probe(n) = probe{sent: now}
	f.next++
	return n, gaveUp
}

// settleOldest settles the oldest probe, and returns how many are given up: 1 or 0.
func (f *flow) settleOldest() (gaveUp int) {
	if p := f.probe(f.tail); !p.answered {
		p.answered = true // an answer comes too late
		gaveUp = 1
	}
	if f.overdueEnd == f.tail {
		f.addOverdue()
	}
	f.tail++
	return gaveUp
}

// addOverdue notes that another probe is overdue.
func (f *flow) addOverdue() {
	if f.overdueEnd == f.answeredEnd {
		f.overdueSince = f.probe(f.overdueEnd).sent
	}
	f.overdueEnd++
}

// expire settles the probes that had their time, and notes which are overdue. It returns how
// many are given up.
func (f *flow) expire(now, timeout, wait time.Duration) (gaveUp int) {
	for f.overdueEnd != f.next && now-f.probe(f.overdueEnd).sent >= wait {
		f.addOverdue()
	}
	for f.tail != f.next {
		if p := f.probe(f.tail); !p.answered && now-p.sent < timeout {
			break
		}
		gaveUp += f.settleOldest()
	}
	return gaveUp
}

// overdue is how many probes after the last answered one are not answered although they should
// be, and when the first of them was sent.
func (f *flow) overdue() (n int, since time.Duration) {
	if int32(f.overdueEnd-f.answeredEnd) <= 0 {
		return 0, 0
	}
	return int(f.overdueEnd - f.answeredEnd), f.overdueSince
}

// answer takes the answer to a probe, and returns when it was sent; ok: it is the first one.
func (f *flow) answer(n uint32) (sent time.Duration, ok bool) {
	if n-f.tail >= f.next-f.tail {
		return 0, false
	}
	p := f.probe(n)
	if p.answered {
		return 0, false
	}
	p.answered = true
	if int32(n+1-f.answeredEnd) > 0 {
		f.answeredEnd = n + 1
	}
	if int32(f.overdueEnd-f.answeredEnd) < 0 {
		f.overdueEnd = f.answeredEnd
	}
	return p.sent, true
}

// windows count probes of the last minutes.
type windows struct {
	list [windowCount]window
	at   int64 // number of the newest
}

// window is a span of time.
type window struct{ settled, lost uint32 }

const (
	windowCount = 30
	windowSpan  = 10 * time.Second
)

// current is the window of a time.
func (w *windows) current(at time.Duration) *window {
	n := int64(at / windowSpan)
	if n-w.at > windowCount {
		w.at = n - windowCount
	}
	for w.at < n {
		w.at++
		w.list[w.at%windowCount] = window{}
	}
	return &w.list[n%windowCount]
}

// last adds up the newest windows.
func (w *windows) last(at time.Duration, count int) (settled, lost uint64) {
	w.current(at)
	for i := range min(count, windowCount) {
		one := &w.list[(w.at-int64(i)+windowCount*1000)%windowCount]
		settled, lost = settled+uint64(one.settled), lost+uint64(one.lost)
	}
	return settled, lost
}
