// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

func TestPinsLeaveNothing(t *testing.T) {
	testnet.NeedRoot(t)
	mounts := func() string {
		content, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	directory := t.TempDir()
	t.Setenv("TMPDIR", directory)
	path, release, err := PrivatePins()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if strings.Contains(mounts(), directory) {
		t.Errorf("%s is still mounted", directory)
	}
	if err := os.Mkdir(filepath.Join(path, "pins"), 0o700); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("%s holds %v (%v)", directory, left, err)
	}
}

// All threads stay off the last CPU until they are released, including those
// created meanwhile; a thread can still pin itself to that CPU.
func TestKeepApart(t *testing.T) {
	cpus, err := UsableCPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	mayUse := func() bool {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // and never unlocked: a new thread for the next
			var set unix.CPUSet
			done <- unix.SchedGetaffinity(0, &set) == nil && set.IsSet(last)
		}()
		return <-done
	}
	apart, release, err := KeepApart()
	if err != nil {
		t.Fatal(err)
	}
	if apart != (len(cpus) > 1) {
		t.Errorf("apart: %v, with %d CPUs", apart, len(cpus))
	}
	for range 20 {
		if mayUse() == apart {
			t.Fatalf("apart: %v, a thread may use CPU %d: %v", apart, last, !apart)
		}
	}
	unpin, err := PinThread(0)
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || !set.IsSet(last) || set.Count() != 1 {
		t.Errorf("pinned to %v (%v) instead of %d", set, err, last)
	}
	unpin()
	if err := release(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if !mayUse() {
			t.Fatalf("CPU %d is still reserved", last)
		}
	}
}

func TestQuantiles(t *testing.T) {
	values := []float64{9, 1, 5, 3, 7}
	if m, s := Median(values), Spread(values, 1); m != 5 || s == nil || *s != 4 {
		t.Errorf("median %v, spread %v", m, s)
	}
	if s := Spread(values[:1], 1); s != nil {
		t.Errorf("one value has the spread %v", *s)
	}
	if values[0] != 9 {
		t.Error("the values were reordered")
	}
	if m := Median([]float64{1, 2}); m != 1.5 {
		t.Errorf("median of two: %v", m)
	}
	if m := Median([]float64{4}); m != 4 {
		t.Errorf("median of one: %v", m)
	}
	if m := Middle([]float64{1000, 2, 3, -500}); m != 2.5 {
		t.Errorf("middle half: %v", m)
	}
	if m := Middle([]float64{4}); m != 4 {
		t.Errorf("middle of one: %v", m)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("no values have a median")
	}
}
