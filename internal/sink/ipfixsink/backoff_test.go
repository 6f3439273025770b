// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// briefLink is a connection that accepts everything, and ends after a while.
type briefLink struct {
	taken uint64
	over  chan struct{}
}

func newBriefLink(lasts time.Duration) *briefLink {
	l := &briefLink{over: make(chan struct{})}
	time.AfterFunc(lasts, func() { close(l.over) })
	return l
}

func (l *briefLink) peer() net.Addr { return &net.TCPAddr{} }
func (l *briefLink) limit() int     { return streamMessage }
func (l *briefLink) write(out []byte, _ []int) error {
	l.taken += uint64(len(out))
	return nil
}
func (l *briefLink) confirmed() (uint64, []uint64, error) { return l.taken, nil, nil }
func (l *briefLink) unread() uint64                       { return 0 }
func (l *briefLink) gone() <-chan struct{}                { return l.over }
func (l *briefLink) ended() error                         { return errEnded }
func (l *briefLink) finish()                              {}
func (l *briefLink) close()                               {}

// The waits between attempts begin at firstWait and double up to maxWait, each
// shortened by less than half at random; a session that lasts resets them, a short one
// does not.
func TestWaitsBetweenAttempts(t *testing.T) {
	const long, short = steadyTime + time.Second, steadyTime / 2
	sessions := map[int]time.Duration{10: long, 13: short, 15: long} // the others are refused
	want := []time.Duration{
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 16 * time.Second, maxWait, maxWait, maxWait,
		firstWait, 2 * firstWait, 4 * firstWait, // after the first long one
		8 * firstWait, 16 * firstWait, // the short one changes nothing
		firstWait,
	}
	if maxWait != 30*time.Second || firstWait != 250*time.Millisecond {
		t.Errorf("waits from %v to %v are not those that are documented", firstWait, maxWait)
	}
	shortened := 0
	for range 20 {
		var waits []time.Duration
		synctest.Test(t, func(t *testing.T) { waits = waitsBetween(t, sessions, len(want)) })
		for i, w := range waits {
			if w > want[i] || w <= want[i]/2 {
				t.Errorf("wait %d is %v, want up to half less than %v", i, w, want[i])
			}
			if w < want[i]*3/4 {
				shortened++
			}
		}
	}
	if n := 20 * len(want); shortened < n/4 || shortened > n*3/4 {
		t.Errorf("%d of %d waits are shortened by more than a quarter, want about half", shortened, n)
	}
}

// waitsBetween runs an exporter of which the given attempts give sessions, and the
// others fail. Each wait is from an attempt's end to the next one.
func waitsBetween(t *testing.T, sessions map[int]time.Duration, count int) (waits []time.Duration) {
	c := newCollector(t, newEncoder(t), Config{Transport: TCP, Address: "[::1]:4739"})
	ctx, cancel := context.WithCancel(t.Context())
	attempt, ended := 0, time.Time{}
	c.dial = func(context.Context, control) (link, error) {
		if attempt > 0 {
			waits = append(waits, time.Since(ended))
		}
		lasts := sessions[attempt]
		if ended = time.Now().Add(lasts); attempt == count {
			cancel()
		}
		attempt++
		if lasts == 0 {
			return nil, errors.New("refused")
		}
		return newBriefLink(lasts), nil
	}
	c.Run(ctx)
	return waits
}
