// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

// nice is the nice value of a thread. The system call gives 20 minus it.
func nice(t *testing.T, thread int) int {
	t.Helper()
	n, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - n
}

// A question has a thread of a low priority, which nothing else gets after it.
func TestQuestionsGiveWay(t *testing.T) {
	before := nice(t, 0)
	s, _ := opened(t, Options{Directory: t.TempDir()})
	why := errors.New("no such packet")
	var during, thread int
	if err := s.niced(niceQuestion, func() error {
		thread = unix.Gettid()
		during = nice(t, 0)
		return why
	}); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if want := max(before, niceQuestion); during != want {
		t.Errorf("nice value %d of a question instead of %d", during, want)
	}
	for begun := time.Now(); thread != os.Getpid(); time.Sleep(time.Millisecond) { // the first thread of a process cannot end
		if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread)); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Since(begun) > patience.Of(10*time.Second) {
			t.Fatal("the thread of a question is used on")
		}
	}
}

// A panic of a question ends the question, not the collector, and is logged with its place.
func TestPanicOfQuestion(t *testing.T) {
	s, said := opened(t, Options{Directory: t.TempDir()})
	err := s.niced(niceQuestion, func() error { panic("a bug") })
	if err == nil || err.Error() != "an error of the program: a bug" {
		t.Errorf("%v", err)
	}
	if log := said.String(); !strings.Contains(log, "ERROR an error of the program: a bug") || !strings.Contains(log, "TestPanicOfQuestion") {
		t.Errorf("%q", log)
	}
}

// The threads of the database, which help with questions, have their priority.
func TestDatabaseGivesWay(t *testing.T) {
	threads := func() (list map[string]int) {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		list = map[string]int{}
		for _, task := range tasks {
			if id, err := strconv.Atoi(task.Name()); err == nil {
				if value, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil { // else it has ended
					list[task.Name()] = 20 - value
				}
			}
		}
		return list
	}
	before := threads()
	opened(t, Options{Directory: t.TempDir()})
	lowered := 0
	for id, value := range threads() {
		if _, old := before[id]; !old && value >= niceQuestion {
			lowered++
		}
	}
	if lowered < runtime.NumCPU()-1 {
		t.Errorf("%d new threads have a low priority with %d processors", lowered, runtime.NumCPU())
	}
}

// A commit, which may need the database's threads, does not wait for their low priority, where it may be raised.
func TestCommitHurries(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir()})
	if n := len(s.workers.threads); n < runtime.NumCPU()-1 {
		t.Fatalf("%d threads of the database are known with %d processors", n, runtime.NumCPU())
	}
	values := func() (list []int) {
		for _, id := range append([]int{unix.Gettid()}, s.workers.threads...) {
			value, err := unix.Getpriority(unix.PRIO_PROCESS, id)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, 20-value)
		}
		return list
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NICE, &limit); err != nil {
		t.Fatal(err)
	}
	mayRaise := os.Geteuid() == 0 || limit.Cur >= 20
	if err := s.niced(niceRollup, func() error {
		before := values()
		var during, inner []int
		if err := s.workers.hurry(func() error {
			during = values()
			return s.workers.hurry(func() error { inner = values(); return nil }) // another commit at the same time
		}); err != nil {
			t.Error(err)
		}
		if after := values(); !slices.Equal(after, before) {
			t.Errorf("nice values %v before, %v after", before, after)
		}
		for i := range before {
			want := before[i]
			if mayRaise {
				want = min(want, 0)
			}
			if before[i] < niceRollup || during[i] != want || inner[i] != want {
				t.Errorf("thread %d: nice value %d before, %d and %d meanwhile, want %d", i, before[i], during[i], inner[i], want)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
