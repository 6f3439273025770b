// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/pathtrace/monitor"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/ioam"
)

// lookUpPeriod is how often names of hosts are looked up.
const lookUpPeriod = time.Minute

// Probes sends probes to the destinations of the configuration.
type Probes struct {
	service.Idle
	d     Dependencies
	lines eventlog.Lines
	wake  chan struct{}
	run   func(m *monitor.Monitor, ctx context.Context, notify func()) error

	mu         sync.Mutex
	wanted     *config.Probes                // nil: none
	behind     func(netip.Prefix) netip.Addr // the node to which packets to a prefix are tunnelled
	namespace  ioam.NamespaceID
	keySum     string
	answerRate int // of this node's own path-trace; 0: none
	config     monitor.Config
	monitor    *monitor.Monitor // nil: nothing is probed
	end        func()
	fault      error
	hosts      map[string]netip.Addr // that were looked up
	own        []string
	unresolved []string
	counts     monitor.Counts // of monitors that ended
}

// NewProbes makes the service; without probes in the configuration, it does nothing.
func NewProbes(d Dependencies) *Probes {
	return &Probes{
		d:     d,
		wake:  make(chan struct{}, 1),
		run:   (*monitor.Monitor).Run,
		hosts: make(map[string]netip.Addr),
	}
}

func (p *Probes) Prepare(plan *service.Plan) error {
	plan.OnCommit(func() { p.set(plan.Next) })
	return nil
}

func (p *Probes) Run(ctx context.Context) error {
	lookUp := time.NewTicker(lookUpPeriod)
	defer lookUp.Stop()
	ticker := time.NewTicker(service.SamplePeriod)
	defer ticker.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-lookUp.C:
			all = true
		case <-ticker.C:
		}
		end := p.d.Tasks.Begin(time.Now())
		p.lookUp(all)
		p.mu.Lock()
		p.follow() // addresses of this node, and failed sockets
		p.mu.Unlock()
		end()
	}
}

func (p *Probes) Close(bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop(false)
}

// set makes the probes follow a configuration.
func (p *Probes) set(s *service.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted, p.behind, p.keySum, p.answerRate = s.Config.Probes, s.Config.NodeBehind, s.KeySum, 0
	if s.Config.Trace != nil {
		p.answerRate = int(s.Config.Trace.Rate)
	}
	if p.wanted != nil {
		switch {
		case p.wanted.Namespace != nil:
			p.namespace = *p.wanted.Namespace
		case len(s.Config.Namespaces) > 0:
			p.namespace = s.Config.Namespaces[0].ID
		}
	}
	p.follow()
	select {
	case p.wake <- struct{}{}: // look names up, which takes time
	default:
	}
}

// lookUp looks up the names of hosts: all, or those that are not known. One that is not found
// keeps its address.
func (p *Probes) lookUp(all bool) {
	p.mu.Lock()
	var names []string
	if p.wanted != nil {
		for _, d := range p.wanted.Destinations {
			if _, known := p.hosts[d.Host]; d.Host != "" && (all || !known) {
				names = append(names, d.Host)
			}
		}
	}
	p.mu.Unlock()
	for _, name := range names {
		for _, a := range p.d.System.Addresses(name) {
			if a.Is6() && !a.Is4In6() && !a.IsLinkLocalUnicast() {
				p.mu.Lock()
				p.hosts[name] = a
				p.mu.Unlock()
				break
			}
		}
	}
}

// follow probes what is to be probed now. The caller holds p.mu.
func (p *Probes) follow() {
	if p.wanted == nil {
		p.stop(true)
		p.own, p.unresolved, p.fault = nil, nil, nil
		return
	}
	next, err := p.targets()
	if err != nil {
		p.failed(err)
		return
	}
	switch {
	case len(next.Destinations) == 0:
		p.stop(true)
	case p.monitor == nil:
		p.start(next)
	case !reflect.DeepEqual(next, p.config):
		if err := p.monitor.Configure(next, p.monitor.Now()); err != nil {
			p.failed(err)
			return
		}
		p.config, p.fault = next, nil
	default:
		p.fault = nil
	}
}

// targets are what is to be probed: not this node, and each address once.
func (p *Probes) targets() (c monitor.Config, err error) {
	w := p.wanted
	c = monitor.Config{
		Source: w.Source, Port: uint16(w.Port), Namespace: p.namespace, Flows: int(w.Flows), Interval: time.Duration(w.Interval),
		Timeout:  time.Duration(w.Timeout),
		Loopback: w.Loopback, Rate: int(w.Budget), SearchRate: w.SearchRate(len(w.Destinations)),
	}
	if w.KeyFile != "" {
		if c.Key, err = keyfile.Read(w.KeyFile); err != nil {
			return c, err
		}
	}
	own, seen := p.d.System.OwnAddresses(), make(map[netip.Addr]bool)
	p.own, p.unresolved = nil, nil
	for _, d := range w.Destinations {
		address := d.Address
		if d.Host != "" {
			address = p.hosts[d.Host]
		}
		name := cmp.Or(d.Name, d.Host, address.String())
		if d.Prefix.IsValid() {
			address, name = p.behind(d.Prefix), cmp.Or(d.Name, d.Prefix.String())
		}
		switch {
		case !address.IsValid() && d.Name != "" && d.Prefix.IsValid():
			p.unresolved = append(p.unresolved, fmt.Sprintf("%s (%v)", d.Name, d.Prefix))
		case !address.IsValid():
			p.unresolved = append(p.unresolved, name)
		case own(address):
			p.own = append(p.own, name)
		case !seen[address]:
			seen[address] = true
			c.Destinations = append(c.Destinations, monitor.Destination{Name: name, Address: address})
		}
	}
	return c, nil
}

// start begins to probe. The caller holds p.mu.
func (p *Probes) start(c monitor.Config) {
	m, err := monitor.New(c, func(id ioam.NodeID) string { return p.d.State.Load().Names.Node(id) })
	if err != nil {
		p.failed(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.monitor, p.config = m, c
	p.end = func() { cancel(); <-done }
	go func() {
		err := p.run(m, ctx, func() { p.tell(m.Events()) })
		close(done)
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.monitor == m {
				p.stop(true) // it begins again after a while
				p.failed(err)
			}
		}
	}()
	p.fault = nil
	p.d.Log.Info("probing", "destinations", len(c.Destinations), "flows", c.Flows, "interval", c.Interval)
}

// stop ends the probes. abandon: what they showed to be lost is not known any more; else the next agent finds
// out. The caller holds p.mu.
func (p *Probes) stop(abandon bool) {
	if p.monitor == nil {
		return
	}
	p.end()
	if abandon {
		p.monitor.Abandon()
	}
	p.tell(p.monitor.Events())
	p.counts = plus(p.counts, p.monitor.Counts())
	p.monitor, p.config = nil, monitor.Config{}
}

// failed notes why there are no probes. The caller holds p.mu.
func (p *Probes) failed(err error) {
	if p.fault == nil || p.fault.Error() != err.Error() {
		p.d.Log.Warn("probes are not sent", "error", err)
	}
	p.fault = err
}

// plus adds up counts.
func plus(a, b monitor.Counts) monitor.Counts {
	a.Sent += b.Sent
	a.HopLimited += b.HopLimited
	a.Copies += b.Copies
	a.Suppressed += b.Suppressed
	a.Skipped += b.Skipped
	a.SendFailed += b.SendFailed
	a.Malformed += b.Malformed
	a.Foreign += b.Foreign
	a.Forged += b.Forged
	a.Late += b.Late
	a.Moves += b.Moves
	for i := range a.Events {
		a.Events[i] += b.Events[i]
	}
	return a
}

// now is the running monitor, nil without one, and all counts.
func (p *Probes) now() (*monitor.Monitor, monitor.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.monitor == nil {
		return nil, p.counts
	}
	return p.monitor, plus(p.counts, p.monitor.Counts())
}

// Warnings are about probes that cannot be sent, that vanish, or that this node's own endpoint
// would not all answer.
func (p *Probes) Warnings(*service.State) (ws []health.Warning) {
	p.mu.Lock()
	m, fault, rate, wanted, own := p.monitor, p.fault, p.answerRate, p.wanted, len(p.own)
	p.mu.Unlock()
	if wanted == nil {
		return nil
	}
	if fault != nil {
		text, cure := problem.Of(fault)
		ws = append(ws, health.ProbesNotSent(text, cure))
	}
	if arriving := wanted.Arriving(len(wanted.Destinations)); own > 0 && rate > 0 && arriving > rate {
		ws = append(ws, health.ProbesTooMany(arriving, rate))
	}
	if m == nil {
		return ws
	}
	for _, s := range m.States() {
		for _, one := range s.Places {
			ws = append(ws, health.ProbesVanish(s.Name, vanishText(s.Name, one.Flows, s.Flows, &one), one.Never))
		}
	}
	return ws
}
