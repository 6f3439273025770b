// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netns"

	"github.com/waymark-net/waymark/internal/problem"
)

// NewNamespace makes a network namespace without a name: it disappears with its
// last holder, however this process ends.
func NewNamespace() (netns.NsHandle, error) {
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
		return netns.None(), problem.Wrap(fmt.Errorf("make a network namespace: %w", m.err), "run as root")
	}
	return m.handle, nil
}

// InNamespace calls f on its own thread in a namespace. Sockets and processes
// made there stay in it.
func InNamespace(handle netns.NsHandle, f func() error) error {
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
// own. The kernel patches itself to call attached programs directly; for other
// programs it does so at the start of every run and undoes it at the end, which
// takes tens of milliseconds.
func hold(program *ebpf.Program) (release func(), err error) {
	ns, err := NewNamespace()
	if err != nil {
		return nil, err
	}
	var l link.Link
	err = InNamespace(ns, func() (err error) {
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
