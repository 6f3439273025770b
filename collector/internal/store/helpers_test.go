// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

// The driver has the handle of its database where the helpers look for it. Without it, the database has threads of its
// own.
func TestHandle(t *testing.T) {
	c, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if handleOf(c) == nil {
		t.Error("the driver has no such field any more")
	}
}

// used is the processor time that this thread and the whole process have used.
func used(t *testing.T) (thread, process time.Duration) {
	t.Helper()
	var u [2]unix.Rusage
	for i, who := range []int{unix.RUSAGE_THREAD, unix.RUSAGE_SELF} {
		if err := unix.Getrusage(who, &u[i]); err != nil {
			t.Fatal(err)
		}
	}
	of := func(u unix.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }
	return of(u[0]), of(u[1])
}

// Helpers do a part of a question's work, and no part of what they are kept from.
func TestHelpers(t *testing.T) {
	before := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	defer runtime.GOMAXPROCS(before)
	s, _ := opened(t, Options{Directory: t.TempDir()})
	heavy := "SELECT sum(hash(i * 7) % 1000) FROM range(15000000) r(i)"
	// others is the part of a query's processor time that other threads use. Garbage is collected before it.
	others := func(with func(func() error) error) (part float64) {
		runtime.GC()
		err := with(func() error {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			thread, process := used(t)
			_, err := s.db.Exec(heavy)
			threadAfter, processAfter := used(t)
			part = 1 - float64(threadAfter-thread)/float64(processAfter-process)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return part
	}
	begun := time.Now()
	late := func() bool { return time.Since(begun) > patience.Of(20*time.Second) }
	for others(s.helpers.help) < 0.2 { // the machine may have no processor for them now
		if late() {
			t.Fatal("helpers do not help")
		}
	}
	for { // one that looks for a task may get no processor to leave again
		inside := 0
		part := others(func(do func() error) error {
			return s.helpers.help(func() error {
				s.helpers.pause()
				defer s.helpers.resume()
				s.helpers.awaitLooking()
				s.helpers.change(func() { inside = s.helpers.inside })
				return do()
			})
		})
		if part < 0.1 && inside == 0 {
			break
		}
		if late() {
			t.Fatalf("%d helpers look for tasks, and did %.2f of what they were kept from", inside, part)
		}
	}
}

// A helper that has a task goes on with it. What no helper is to begin waits only as long as one looks for a task.
func TestHelperGoesOn(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir()})
	s.helpers.change(func() { s.helpers.inside++ }) // as one with a long task
	defer s.helpers.change(func() { s.helpers.inside-- })
	s.helpers.pause()
	defer s.helpers.resume()
	begun := time.Now()
	if s.helpers.awaitLooking(); time.Since(begun) < looksFor/2 {
		t.Errorf("it is waited for during %v", time.Since(begun))
	}
}

// Without the handle, there are no helpers, and nothing waits for any.
func TestNoHelpers(t *testing.T) {
	h := startHelpers(nil, 2)
	h.pause()
	h.awaitLooking()
	h.resume()
	why := errors.New("no such packet")
	if err := h.help(func() error { return why }); !errors.Is(err, why) || h.inside != 0 {
		t.Errorf("%v, %d helpers", err, h.inside)
	}
	h.end()
}
