// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// troubled is a writer that fails or waits until it is told otherwise.
type troubled struct {
	mu    sync.Mutex
	fails bool
	list  []record.Record
	waits chan struct{} // nil: does not wait
}

func (w *troubled) Write(batch []record.Record) (tried, written int, err error) {
	if w.waits != nil {
		<-w.waits
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails {
		return len(batch), 0, errors.New("no space left on device")
	}
	w.list = append(w.list, batch...)
	return len(batch), len(batch), nil
}

func (w *troubled) End() {}

func (w *troubled) Close() error { return nil }

func (w *troubled) set(fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}

// sequences are the Sequence Numbers of the paths that were written, in order.
func (w *troubled) sequences() (list []uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.list {
		if p, ok := r.(*record.Path); ok {
			list = append(list, p.Sequence)
		}
	}
	return list
}

// operatorNotes are the messages for the operator.
type operatorNotes struct {
	mu   sync.Mutex
	list []string
}

func (s *operatorNotes) addNote(_ slog.Level, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, text)
}

func (s *operatorNotes) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(each string) bool { return strings.Contains(each, text) })
}

// beginTroubled runs a collector with a sink of w, and feeds it packets.
func beginTroubled(t *testing.T, w *troubled) (c *Collector, notes *operatorNotes, cancel func(), done <-chan error, feed func(count int)) {
	t.Helper()
	e, err := ParseEndpoint("tcp://[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	notes = &operatorNotes{}
	out := sink.NewQueued(w, sink.Settings{Name: "out", Retry: true})
	c, cancel, done = begin(t, Config{Listen: []Endpoint{e}, Sinks: []sink.Sink{out}, Enterprise: enterprise, Notify: notes.addNote})
	conn, x, next := dial(t, c.Endpoints()[0]), newExporter(t, ipfix.TCP, 1), uint64(0)
	return c, notes, cancel, done, func(count int) {
		for last := next + uint64(count); next < last; {
			var cards []fields
			for ; next < last && len(cards) < 150; next++ {
				cards = append(cards, packet(next)...)
			}
			send(t, conn, x.message(start, 0, cards...))
		}
	}
}

func inOrder(list []uint32, count int) bool {
	for i, n := range list {
		if int(n) != i {
			return false
		}
	}
	return len(list) == count
}

// A sink that fails for a while loses nothing that has room, and says that it fails.
func TestSinkFailsForAWhile(t *testing.T) {
	w := &troubled{fails: true}
	c, notes, cancel, done, feed := beginTroubled(t, w)
	feed(1000)
	eventually(t, "receiving goes on", func() bool { return c.Stats().Join.Joined == 3000 })
	eventually(t, "a message", func() bool { return notes.has("out: no space left on device; it keeps trying") })
	if got := w.sequences(); len(got) > 0 {
		t.Errorf("%d paths were written", len(got))
	}
	w.set(false)
	eventually(t, "all paths", func() bool { return inOrder(w.sequences(), 1000) })
	eventually(t, "a message", func() bool { return notes.has("out: it works again; 0 records were lost") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What has no room is counted, and is an error if the sink never works again.
func TestSinkFailsForLong(t *testing.T) {
	w := &troubled{fails: true}
	c, _, cancel, done, feed := beginTroubled(t, w)
	room := new(sink.QueueSpace).Records()
	feed(2*room + 500) // a queue, and what its writer holds
	lost := func() (n uint64) { return c.output.sinks[0].Stats().Dropped }
	eventually(t, "losses", func() bool { return c.output.sinks[0].Stats().Offered == uint64(2*room+500) && lost() >= 500 })
	g := metrics.Only("waymark_collect_output_dropped_total")
	c.Collect(g)
	value := g.Sum("waymark_collect_output_dropped_total", "queue_full")
	if value != float64(lost()) {
		t.Errorf("the metric says that %v were lost, not %d", value, lost())
	}
	cancel()
	err := <-done
	if err == nil || !strings.Contains(err.Error(), "write records: no space left on device; ") ||
		!strings.HasSuffix(err.Error(), " were lost") {
		t.Errorf("it ended with %v", err)
	}
	if s := c.output.sinks[0].Stats(); s.Waiting() != 0 || s.Written != 0 || s.Offered != uint64(2*room+500) {
		t.Errorf("at the end: %+v", s)
	}
}

// A sink that has stopped does not stop receiving; the end writes what waits, in order.
func TestSinkThatHasStopped(t *testing.T) {
	w := &troubled{waits: make(chan struct{})}
	c, notes, cancel, done, feed := beginTroubled(t, w)
	room := new(sink.QueueSpace).Records()
	feed(1)
	eventually(t, "the writer waits", func() bool { return c.output.sinks[0].Stats().Waiting() == 1 })
	time.Sleep(20 * time.Millisecond)
	feed(room + 100)
	eventually(t, "receiving goes on", func() bool { return c.Stats().Join.Joined == uint64(3*(room+101)) })
	eventually(t, "a message", func() bool { return notes.has("records had no room and were lost") })
	cancel()
	close(w.waits)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience.Of(10 * time.Second)):
		t.Fatal("it does not end")
	}
	s, list := c.output.sinks[0].Stats(), w.sequences()
	if s.Dropped == 0 || s.Dropped > 100 || s.Lost != 0 || !slices.IsSorted(list) || len(list) != int(s.Written) || s.Waiting() != 0 {
		t.Errorf("%+v, %d paths in order: %v", s, len(list), slices.IsSorted(list))
	}
	if !notes.has("records were lost in all") {
		t.Errorf("%q", notes.list)
	}
}

// slow is a writer that takes its time for each part of a batch, or waits for ever.
type slow struct {
	troubled
	takes   atomic.Int64  // a duration; 0: until release
	release chan struct{} // closed
}

func (w *slow) Write(batch []record.Record) (tried, written int, err error) {
	if takes := w.takes.Load(); takes > 0 {
		time.Sleep(time.Duration(takes))
	} else {
		<-w.release
	}
	return w.troubled.Write(batch[:min(len(batch), passed)])
}

// The joining stage waits for a sink that is slow, and only once for one that has stopped.
func TestPassingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{release: make(chan struct{})}
		w.takes.Store(int64(mostAwaited * 9 / 10))
		q := sink.NewQueued(w, sink.Settings{})
		o := &output{sinks: []sink.Sink{q}, stopped: make([]bool, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		runs.Go(func() { q.Run(ctx) })
		batch := make([]record.Record, new(sink.QueueSpace).Records())
		for i := range batch {
			batch[i] = &record.Lost{}
		}
		passes := func(what string, n int, want time.Duration) {
			t.Helper()
			began := time.Now()
			if o.pass(batch[:n]); time.Since(began) != want {
				t.Errorf("%s: it waited %v, not %v", what, time.Since(began), want)
			}
			synctest.Wait()
		}
		takes := time.Duration(w.takes.Load())
		passes("nothing waits", 1, 0)
		passes("as many as have room", len(batch), 0)
		passes("a record is written", 1, takes)
		passes("as many as have room, again", len(batch)-1, 0)
		passes("a slow sink", 1, takes*time.Duration(len(batch)/passed))
		w.takes.Store(0)
		time.Sleep(mostAwaited) // the write that has begun ends
		passes("as many as have room, once more", len(batch)-1, 0)
		passes("a sink that has stopped", 3*passed, mostAwaited)
		passes("a sink that has stopped, again", 3*passed, 0)
		if s := q.Stats(); s.Dropped != 6*passed || !o.stopped[0] {
			t.Errorf("%+v", s)
		}
		close(w.release)
		synctest.Wait()
		if passes("a sink that works again", 1, 0); o.stopped[0] {
			t.Error("there is room")
		}
		cancel()
		runs.Wait()
	})
}

// trickle is a writer that writes one record at a time, slowly.
type trickle struct{ troubled }

func (w *trickle) Write(batch []record.Record) (tried, written int, err error) {
	time.Sleep(mostAwaited / 4)
	return w.troubled.Write(batch[:1])
}

// A sink that writes a record now and then does not hold up the others: it counts as one that has stopped.
func TestPassingOnToTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sinks := []*sink.Queued{
			sink.NewQueued(&trickle{}, sink.Settings{Retry: true}), sink.NewQueued(&troubled{}, sink.Settings{}),
		}
		o := &output{sinks: []sink.Sink{sinks[0], sinks[1]}, stopped: make([]bool, 2)}
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		for _, s := range sinks {
			runs.Go(func() { s.Run(ctx) })
		}
		batch := make([]record.Record, new(sink.QueueSpace).Records())
		for i := range batch {
			batch[i] = &record.Lost{}
		}
		began := time.Now()
		for range 10 {
			o.pass(batch)
		}
		if took := time.Since(began); took > 2*mostAwaited {
			t.Errorf("the other sink had to wait %v", took)
		}
		synctest.Wait()
		if s := sinks[1].Stats(); s.Written != uint64(10*len(batch)) {
			t.Errorf("the other sink: %+v", s)
		}
		if s := sinks[0].Stats(); s.Dropped == 0 || s.Written == 0 || !o.stopped[0] {
			t.Errorf("the slow one: %+v", s)
		}
		cancel()
		runs.Wait()
	})
}
