// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
)

// answerer answers packets of other nodes until its context ends.
type answerer interface {
	Open() error
	Run(context.Context) error
	Local() netip.AddrPort
}

// listeners is a service that keeps answerers running, one for each C that the configuration
// asks for. If one cannot listen, it tries again: packets do not depend on it.
type listeners[C any, T answerer] struct {
	service.Idle
	d        Dependencies
	want     func(*config.Config) []C
	describe func(*C) string     // it is, in the log
	make     func(*C) (T, error) // an answerer that is not open yet
	ended    func(*C, T)         // keeps the counters of one that has ended; the caller holds mu

	mu     sync.Mutex
	wanted []C
	keys   string         // digest of key files
	list   []*listener[T] // of wanted
}

// listener is an answerer, if it runs.
type listener[T answerer] struct {
	answerer T
	open     bool
	end      func()
	logged   error       // the last one in the log
	failed   atomic.Bool // it ended by itself
}

func (s *listeners[C, T]) Prepare(p *service.Plan) error {
	p.OnCommit(func() { s.set(s.want(p.Next.Config), p.Next.KeySum) })
	return nil
}

func (s *listeners[C, T]) Run(ctx context.Context) error {
	s.d.Tasks.Every(ctx, service.SamplePeriod, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begin()
	})
	return nil
}

func (s *listeners[C, T]) Close(bool) { s.set(nil, "") }

// set makes the answerers follow the configuration, and the contents of its key files.
func (s *listeners[C, T]) set(wanted []C, keys string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := len(wanted) == len(s.wanted) && (len(wanted) == 0 || keys == s.keys && reflect.DeepEqual(wanted, s.wanted))
	s.keys = keys
	if same {
		return
	}
	for i := range s.list {
		s.stop(i)
	}
	s.wanted, s.list = wanted, nil
	for range wanted {
		s.list = append(s.list, new(listener[T]))
	}
	s.begin()
}

// begin opens the answerers that do not run. The caller holds s.mu.
func (s *listeners[C, T]) begin() {
	for i, l := range s.list {
		if l.failed.Swap(false) {
			s.stop(i)
		}
		if !l.open {
			s.start(i)
		}
	}
}

// start opens an answerer, and lets it answer.
func (s *listeners[C, T]) start(i int) {
	l, what := s.list[i], s.describe(&s.wanted[i])
	one, err := s.make(&s.wanted[i])
	if err == nil {
		err = one.Open()
	}
	if err != nil {
		if !sameText(err, l.logged) {
			l.logged = err
			s.d.Log.Warn(what+" does not answer", "error", err)
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := one.Run(ctx); err != nil {
			s.d.Log.Warn(what+" has ended", "error", err)
			l.failed.Store(true)
		}
	}()
	l.answerer, l.open, l.end, l.logged = one, true, func() { cancel(); <-done }, nil
	s.d.Log.Info(what+" answers", "address", one.Local())
}

// stop ends an answerer.
func (s *listeners[C, T]) stop(i int) {
	if l := s.list[i]; l.open {
		l.end()
		s.ended(&s.wanted[i], l.answerer)
		l.open = false
	}
}

// Warnings are one for each answerer that cannot listen.
func (s *listeners[C, T]) Warnings(*service.State) (ws []health.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.list {
		if l.open || l.logged == nil {
			continue
		}
		text, cure := problem.Of(l.logged)
		ws = append(
			ws,
			health.New(
				health.NotAnswering,
				"",
				s.describe(&s.wanted[i])+" does not answer: "+text,
				cmp.Or(cure, "correct it; the agent tries again every few seconds"),
			),
		)
	}
	return ws
}

// each visits the answerers that run. The caller holds s.mu.
func (s *listeners[C, T]) each(visit func(*C, T)) {
	for i, l := range s.list {
		if l.open {
			visit(&s.wanted[i], l.answerer)
		}
	}
}

// sameText reports whether two errors, of which both may be nil, say the same.
func sameText(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// optional is what a part of the configuration asks for that may be absent.
func optional[C any](c *C) []C {
	if c == nil {
		return nil
	}
	return []C{*c}
}
