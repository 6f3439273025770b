// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// newNamespace makes a network namespace without a name: it goes with the last
// that holds it, however this process ends.
func newNamespace() (netns.NsHandle, error) {
	type made struct {
		handle netns.NsHandle
		err    error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		handle, err := netns.New()
		done <- made{handle, err}
	}()
	m := <-done
	if m.err != nil {
		return netns.None(), fmt.Errorf("make a network namespace: %w; run as root", m.err)
	}
	return m.handle, nil
}

// inNamespace calls f on a thread of that namespace, which ends with it.
// Sockets made and processes started there stay in it.
func inNamespace(handle netns.NsHandle, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err := netns.Set(handle); err != nil {
			done <- fmt.Errorf("enter a network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}
