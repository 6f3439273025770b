// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

const (
	ratePeriod = 10 * time.Second // between samples
	rateStep   = 3                // samples that a step of the last minutes has
	rateSteps  = 20
	rateRoom   = rateStep*rateSteps + 1
)

// rates knows how many packets a second the interfaces had lately.
type rates struct {
	service.Idle
	*core
	mu sync.Mutex
	of map[model.IfIndex]*lately // guarded by mu
}

// lately is what one interface had counted at the last samples, the oldest first.
type lately struct {
	at      []time.Time
	packets []passed
	counts  [2]datapath.Counters // at the last sample but one, and at the last
}

// passed are the packets that the programs of an interface have seen.
type passed struct{ in, out uint64 }

func newRates(c *core) *rates { return &rates{core: c, of: make(map[model.IfIndex]*lately)} }

// Prepare takes the first sample of interfaces when they have programs.
func (r *rates) Prepare(p *service.Plan) error {
	p.OnCommit(func() { r.sample(time.Now(), true) })
	return nil
}

func (r *rates) Run(ctx context.Context) error {
	r.tasks.Every(ctx, ratePeriod, func() { r.sample(time.Now(), false) })
	return nil
}

// sample takes a sample of all interfaces, or only the first one of new ones.
func (r *rates) sample(now time.Time, onlyNew bool) {
	counters, err := r.datapath.Counters()
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[model.IfIndex]*lately, len(counters))
	for i := range counters {
		c := &counters[i]
		l := r.of[c.Index]
		if l == nil || l.counts[1].Name != c.Name || passedBy(c).less(l.packets[len(l.packets)-1]) {
			l = &lately{counts: [2]datapath.Counters{*c, *c}}
		} else if onlyNew {
			next[c.Index] = l
			continue
		}
		l.at, l.packets = append(l.at, now), append(l.packets, passedBy(c))
		if extra := len(l.at) - rateRoom; extra > 0 {
			l.at, l.packets = append(l.at[:0], l.at[extra:]...), append(l.packets[:0], l.packets[extra:]...)
		}
		l.counts = [2]datapath.Counters{l.counts[1], *c}
		next[c.Index] = l
	}
	r.of = next
}

// passedBy sums up the outcomes: each packet has one at a hook.
func passedBy(c *datapath.Counters) passed {
	return passed{in: sumOf(c.Ingress[:]) + sumOf(c.Forwarded[:]), out: sumOf(c.Egress[:])}
}

// less reports whether counters began anew.
func (p passed) less(than passed) bool { return p.in < than.in || p.out < than.out }

// Report adds the rates of each interface.
func (r *rates) Report(_ *service.State, out *api.Status) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range out.Interfaces {
		one := &out.Interfaces[i]
		if l := r.of[model.IfIndex(one.Index)]; one.Index != 0 && l != nil {
			one.Rates = l.rates(one, now)
		}
	}
}

// rates compares what an interface has counted now with the samples.
func (l *lately) rates(one *api.Interface, now time.Time) *api.Rates {
	back := min(2, len(l.at)) // the last sample may be of this moment
	since := now.Sub(l.at[len(l.at)-back])
	if since < time.Second {
		return nil
	}
	before := &l.counts[2-back]
	out := &api.Rates{
		Over: since.Nanoseconds(), Ingress: perSecond(one.Ingress, before.Ingress, since), Egress: perSecond(one.Egress, before.Egress, since),
		Forwarded: perSecond(one.Forwarded, before.Forwarded, since), Step: (rateStep * ratePeriod).Nanoseconds(),
	}
	for k := len(l.at) - 1; k >= rateStep; k -= rateStep {
		took := l.at[k].Sub(l.at[k-rateStep]).Seconds()
		a, b := l.packets[k-rateStep], l.packets[k]
		out.InLast = append([]float64{float64(b.in-a.in) / took}, out.InLast...)
		out.OutLast = append([]float64{float64(b.out-a.out) / took}, out.OutLast...)
	}
	return out
}

// perSecond are the rates of outcomes that have grown.
func perSecond(now map[string]uint64, before [model.NumOutcomes]uint64, since time.Duration) map[string]float64 {
	rates := make(map[string]float64)
	for _, o := range model.Outcomes() {
		if n := now[o.String()]; n > before[o] {
			rates[o.String()] = float64(n-before[o]) / since.Seconds()
		}
	}
	return rates
}
