// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/stamp"
)

// stampReflector answers test packets, and questions about measured flows. If it cannot
// listen, it tries again: packets do not depend on it.
type stampReflector struct {
	idle
	*core
	answer func(stamp.TLV) bool

	mu     sync.Mutex
	wanted *config.Stamp
	now    *reflector.Reflector // nil while nothing is answered
	end    func()
	logged string      // the last error in the log
	failed atomic.Bool // it ended by itself
	ended  [reflector.NumOutcomes]uint64
}

// As of "waymark stamp reflector".
const (
	maxSessions    = 4096
	sessionTimeout = time.Minute
)

func (r *stampReflector) prepare(p *plan) error {
	p.commit(func() { r.set(p.next.config.Stamp) })
	return nil
}

func (r *stampReflector) run(ctx context.Context) error {
	r.tasks.every(ctx, notePeriod, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.begin()
	})
	return nil
}

func (r *stampReflector) close(bool) { r.set(nil) }

// set makes the reflector follow the configuration.
func (r *stampReflector) set(wanted *config.Stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reflect.DeepEqual(wanted, r.wanted) {
		return
	}
	r.stop()
	r.wanted = wanted
	r.begin()
}

func (r *stampReflector) stop() {
	if r.now != nil {
		r.end()
		for o, n := range r.now.Counts().Outcomes {
			r.ended[o] += n
		}
		r.now = nil
	}
}

// begin opens the reflector, unless it runs. The caller holds r.mu.
func (r *stampReflector) begin() {
	if r.failed.Swap(false) {
		r.stop()
	}
	if r.now != nil || r.wanted == nil {
		return
	}
	key, err := r.key()
	if err != nil {
		r.complain(err)
		return
	}
	one := reflector.New(reflector.Config{
		Key: key, Local: netip.AddrPort(r.wanted.Listen), Allowed: r.wanted.Allow, Rate: int(r.wanted.Rate),
		Stateful: true, MaxSessions: maxSessions, SessionTimeout: sessionTimeout, Extension: r.answer,
	})
	if err := one.Open(); err != nil {
		r.complain(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := one.Run(ctx); err != nil {
			r.log.Warn("the STAMP reflector has ended", "error", err)
			r.failed.Store(true)
		}
	}()
	r.now, r.end, r.logged = one, func() { cancel(); <-done }, ""
	r.log.Info("answering STAMP test packets", "address", one.Local())
}

func (r *stampReflector) key() ([]byte, error) {
	if r.wanted.KeyFile == "" {
		return nil, nil
	}
	return keyfile.Read(r.wanted.KeyFile)
}

// complain logs an error once.
func (r *stampReflector) complain(err error) {
	if text := err.Error(); text != r.logged {
		r.logged = text
		r.log.Warn("the STAMP reflector does not answer", "error", err)
	}
}

var descStamp = desc("stamp_packets_total", "STAMP test packets that reached the agent's reflector, by outcome.", "outcome")

func (r *stampReflector) collect(g *metrics.Gatherer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.ended
	if r.now != nil {
		for o, n := range r.now.Counts().Outcomes {
			counts[o] += n
		}
	}
	for o, n := range counts {
		g.Add(descStamp, float64(n), reflector.Outcome(o).String())
	}
}
