// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"os"
	"runtime"
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

// The threads that help with questions have their priority.
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
	time.Sleep(50 * time.Millisecond) // the thread that opened the database ends
	lowered := func() (n int) {
		for id, value := range threads() {
			if value >= niceQuestion && before[id] < niceQuestion { // a new thread, or one that Go had
				n++
			}
		}
		return n
	}
	for begun := time.Now(); lowered() < runtime.GOMAXPROCS(0)-1; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience.Of(10*time.Second) {
			t.Fatalf("%d threads more have a low priority with %d processors", lowered(), runtime.GOMAXPROCS(0))
		}
	}
}
