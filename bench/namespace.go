// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
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

// hold attaches an XDP program to the loopback interface of a namespace of its
// own. The kernel patches itself to call attached programs directly; for any
// other, it does so at the start of every run and undoes it at the end, which
// takes tens of milliseconds.
func hold(program *ebpf.Program) (release func(), err error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	var l link.Link
	err = inNamespace(ns, func() (err error) {
		l, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: 1, Flags: link.XDPGenericMode})
		return err
	})
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("attach a program to lo of an empty namespace: %w", err)
	}
	return func() {
		l.Close()
		ns.Close()
	}, nil
}
