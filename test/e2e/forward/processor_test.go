// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// stayOn pins a thread to the first of its CPUs, which then also forwards what the
// thread sends. It returns the CPUs that the thread had.
func stayOn(t *testing.T, thread int) (allowed unix.CPUSet) {
	t.Helper()
	if err := unix.SchedGetaffinity(thread, &allowed); err != nil {
		t.Fatal(err)
	}
	var one unix.CPUSet
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(thread, &one); err != nil {
		t.Fatal(err)
	}
	return allowed
}

// onOneCPU runs what sends packets to routers on one CPU: on each CPU, the kernel
// keeps the way of a route with encap that its first packet there took.
func onOneCPU(t *testing.T, send func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allowed := stayOn(t, 0)
	defer func() {
		if err := unix.SchedSetaffinity(0, &allowed); err != nil {
			t.Error(err)
		}
	}()
	send()
}
