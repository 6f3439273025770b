// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
)

// starting makes an instance whose lock is held, and which has no socket, as of an agent that starts.
func starting(t *testing.T) (instance api.Instance, lock *os.File) {
	t.Helper()
	instance = api.Instance{Dir: shortDir(t)}
	lock, err := os.Create(instance.LockFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return instance, lock
}

// An agent that holds its lock, and does not answer yet, is waited for; one that gives up is not.
func TestStopWaitsForAgentThatStarts(t *testing.T) {
	t.Parallel()
	type end struct {
		answer api.Stopped
		err    error
	}
	stop := func(ctx context.Context, instance api.Instance, own bool) <-chan end {
		ended := make(chan end, 1)
		go func() {
			answer, err := stopOrWait(ctx, instance.Socket(), own, true)
			ended <- end{answer, err}
		}()
		return ended
	}
	waits := func(t *testing.T, ended <-chan end) {
		t.Helper()
		select {
		case e := <-ended:
			t.Fatalf("it did not wait: %+v, %v", e.answer, e.err)
		case <-time.After(5 * startPoll):
		}
	}
	within := func(t *testing.T, ended <-chan end) end {
		t.Helper()
		select {
		case e := <-ended:
			return e
		case <-time.After(patience.Of(10 * time.Second)):
			t.Fatal("it waits still")
			return end{}
		}
	}
	t.Run("it answers", func(t *testing.T) {
		instance, _ := starting(t)
		ended := stop(t.Context(), instance, true)
		waits(t, ended)
		const removed = `{"warnings":[{"code":"tunnel_end_removed","severity":"warning","text":"x","cure":"y"}]}`
		f := newFakeAgent(t, map[string]string{"POST /v1/stop": removed})
		if err := os.Symlink(f.socket, filepath.Join(instance.Dir, filepath.Base(instance.Socket()))); err != nil {
			t.Fatal(err)
		}
		if e := within(t, ended); e.err != nil || len(e.answer.Warnings) != 1 || e.answer.Warnings[0].Code != health.TunnelEndRemoved {
			t.Errorf("%+v, %v", e.answer, e.err)
		}
		if got, want := f.last(), `POST /v1/stop {"remove":true}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
	t.Run("it gives up", func(t *testing.T) {
		instance, lock := starting(t)
		ended := stop(t.Context(), instance, true)
		waits(t, ended)
		lock.Close()
		if e := within(t, ended); !errors.Is(e.err, api.ErrNoAgent) {
			t.Error(e.err)
		}
	})
	t.Run("the user gives up", func(t *testing.T) {
		instance, _ := starting(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := stop(ctx, instance, true)
		waits(t, ended)
		cancel()
		if e := within(t, ended); !errors.Is(e.err, context.Canceled) {
			t.Error(e.err)
		}
	})
	t.Run("another instance, whose lock is not known", func(t *testing.T) {
		instance, _ := starting(t)
		if e := within(t, stop(t.Context(), instance, false)); !errors.Is(e.err, api.ErrNoAgent) {
			t.Error(e.err)
		}
	})
}
