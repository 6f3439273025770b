// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"sync/atomic"
	"testing"
	"time"
)

// A clock that is set back costs no record, no template and no wait, and export
// times follow it: collectors compare them with the times of records.
func TestClockSetBack(t *testing.T) {
	for _, transport := range []Transport{UDP, TCP} {
		r, x := newReceiver(t), newEncoder(t)
		c := newCollector(t, x, Config{Transport: transport, Address: r.listen(transport, "[::1]:0")})
		var offset atomic.Int64
		c.now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
		stop := run(c)
		p := postcard(t)
		offer(x, c, p, 1000)
		waitFor(t, "receiving", func() bool { return r.records() == 1000 })
		offset.Store(-int64(48 * time.Hour))
		began := time.Now()
		offer(x, c, p, 1000)
		waitFor(t, "a new session", func() bool { return r.decoder.Sessions() == 2 })
		offer(x, c, p, 1000)
		waitFor(t, "receiving", func() bool { return r.records() == 3000 })
		took := time.Since(began)
		stop()
		r.close()
		s := check(t, c)
		last := r.messages[len(r.messages)-1]
		if ahead := last.ExportTime.Sub(c.now()); ahead > 0 || ahead < -time.Minute {
			t.Errorf("%s: the last message is %v ahead of the clock", transport, ahead)
		}
		if s.Written != 3000 || r.records() != 3000 || r.missed != 0 || s.Unsure != 0 || s.Error != "" {
			t.Errorf("%s: received %d, missed %d, of %+v", transport, r.records(), r.missed, s)
		}
		if took > 10*time.Second {
			t.Errorf("%s: it took %v", transport, took)
		}
	}
}
