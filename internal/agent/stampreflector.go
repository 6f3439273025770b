// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/stamp"
)

// stampReflector answers test packets, and questions about measured flows.
type stampReflector struct {
	listeners[config.Stamp, *reflector.Reflector]
	counts reflector.Counts // of reflectors that have ended; guarded by mu
}

// A measured flow with test packets, or with a session, is a session of the reflector.
const (
	maxSessions    = 65_536
	sessionTimeout = time.Minute
)

func newStampReflector(c *core, answer func(stamp.TLV) bool, counted func(netip.AddrPort, stamp.SSID) (received, transmitted uint32, ok bool)) *stampReflector {
	r := &stampReflector{}
	r.listeners = listeners[config.Stamp, *reflector.Reflector]{
		core: c, want: func(c *config.Config) []config.Stamp { return optional(c.Stamp) },
		what: func(*config.Stamp) string { return "the STAMP reflector" },
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
				Key: key, Local: netip.AddrPort(w.Listen), Allowed: w.Allow, Rate: int(w.Rate), ReturnSegments: w.Return,
				Stateful: true, MaxSessions: maxSessions, SessionTimeout: sessionTimeout, Extension: answer, Measured: counted,
			}), nil
		},
	}
	return r
}

// readKey reads a key, none without a file.
func readKey(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return keyfile.Read(file)
}

// total counts since the agent began.
func (r *stampReflector) total() reflector.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.each(func(_ *config.Stamp, one *reflector.Reflector) { counts = counts.Plus(one.Counts()) })
	return counts
}

func (r *stampReflector) collect(g *metrics.Gatherer) { r.total().Collect(g) }

func (r *stampReflector) report(_ *state, out *api.Status) {
	c := r.total()
	m := &out.Measurement
	m.StampPackets, m.StampNotes = named[reflector.Outcome](c.Outcomes[:]), named[reflector.Note](c.Notes[:])
	m.StampDropped, m.StampSessions = c.SocketDropped, c.Sessions
}
