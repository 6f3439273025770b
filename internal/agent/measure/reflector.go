// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
)

// Reflector answers test packets, and questions about measured flows.
type Reflector struct {
	listeners[config.Stamp, *reflector.Reflector]
	counts reflector.Counts // of reflectors that have ended; guarded by mu
}

// A measured flow with test packets, or with a session, is a session of the reflector.
const (
	maxSessions    = 65_536
	sessionTimeout = time.Minute
)

// NewReflector makes a reflector that answers about blocks.
func NewReflector(d Dependencies, of *Blocks) *Reflector {
	r := &Reflector{}
	r.listeners = listeners[config.Stamp, *reflector.Reflector]{
		d: d, want: func(c *config.Config) []config.Stamp { return optional(c.Stamp) },
		describe: func(*config.Stamp) string { return "the STAMP reflector" },
		ended: func(_ *config.Stamp, one *reflector.Reflector) {
			c := one.Counts()
			c.Sessions = 0 // they have ended with it
			r.counts = r.counts.Plus(c)
		},
		make: func(w *config.Stamp) (*reflector.Reflector, error) {
			key, err := readKey(w.KeyFile)
			if err != nil {
				return nil, err
			}
			return reflector.New(reflector.Config{
				Key: key, Local: netip.AddrPort(w.Listen), Allowed: config.Prefixes(w.Allow), Rate: int(w.Rate), ReturnSegments: w.Return,
				Stateful: true, MaxSessions: maxSessions, SessionTimeout: sessionTimeout, Extension: of.answer, Measured: of.running,
			}), nil
		},
	}
	return r
}

// total counts since the agent began.
func (r *Reflector) total() reflector.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.each(func(_ *config.Stamp, one *reflector.Reflector) { counts = counts.Plus(one.Counts()) })
	return counts
}

func (r *Reflector) Collect(g *metrics.Gatherer) { r.total().Collect(g) }

func (r *Reflector) Report(_ *service.State, out *api.Status) {
	c := r.total()
	m := &out.Measurement
	m.StampPackets, m.StampNotes = service.CountsByName[reflector.Outcome](c.Outcomes[:]), service.CountsByName[reflector.Note](c.Notes[:])
	m.StampDropped, m.StampSessions = c.SocketDropped, c.Sessions
}
