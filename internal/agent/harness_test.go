// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// harness is an agent with a fake system and data plane.
type harness struct {
	t        *testing.T
	agent    *Agent
	place    api.Place
	file     string
	datapath *fakeDatapath
	system   *fakeSystem
	client   *api.Client
	log      *syncBuffer
	cancel   context.CancelFunc
	done     chan error
	manager  *supervisor.Manager
	more     []service // besides the agent's own
}

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newHarness(t *testing.T, yaml string) *harness {
	t.Helper()
	dir, err := os.MkdirTemp("", "wm") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &harness{t: t, place: api.At(filepath.Join(dir, "run"), 42), file: filepath.Join(dir, "node.yaml"), datapath: newFakeDatapath(), system: newFakeSystem()}
	h.client = api.NewClient(h.place.Socket())
	h.write(yaml)
	return h
}

func (h *harness) write(yaml string) {
	h.t.Helper()
	if err := os.WriteFile(h.file, []byte(yaml), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// run starts an agent and returns its error if it does not get ready.
func (h *harness) run() error {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	h.log = &syncBuffer{}
	h.agent = New(Options{
		ConfigFile: h.file, Place: h.place, NodeName: "gamma", Version: "test", System: h.system,
		Log:   slog.New(slog.NewTextHandler(h.log, nil)),
		Open:  func(api.Place, *slog.Logger) (Datapath, bool, error) { return h.datapath, false, nil },
		Ready: func() { close(ready) }, Manager: h.manager,
	})
	h.agent.services = append(h.agent.services, h.more...)
	h.cancel, h.done = cancel, make(chan error, 1)
	go func() { h.done <- h.agent.Run(ctx) }()
	select {
	case err := <-h.done:
		cancel()
		return err
	case <-ready:
		h.t.Cleanup(func() { h.end() })
		return nil
	}
}

func (h *harness) start() {
	h.t.Helper()
	if err := h.run(); err != nil {
		h.t.Fatalf("the agent did not start: %v", err)
	}
}

// end stops the agent as a signal does.
func (h *harness) end() error {
	h.cancel()
	select {
	case err := <-h.done:
		h.done <- err
		return err
	case <-time.After(patience.Of(10 * time.Second)):
		return errors.New("the agent did not end")
	}
}

// crash ends the agent like kill −9: nothing is cleaned up except the lock and the
// socket, which the kernel closes.
func (h *harness) crash() {
	h.t.Helper()
	kept, err := os.ReadFile(h.place.RunningFile())
	if err := h.end(); err != nil {
		h.t.Fatal(err)
	}
	if err == nil {
		if err := os.WriteFile(h.place.RunningFile(), kept, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
}

// the returns a service of the agent.
func only[T service](h *harness) T {
	h.t.Helper()
	for _, s := range h.agent.services {
		if found, ok := s.(T); ok {
			return found
		}
	}
	var none T
	h.t.Fatalf("the agent has no %T", none)
	return none
}

// failure is the error of a change, without its warnings.
func failure(_ api.Changed, err error) error { return err }

func (h *harness) status() api.Status {
	h.t.Helper()
	s, err := h.client.Status(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *harness) warned(code health.Code) bool {
	h.t.Helper()
	ws, err := h.client.Warnings(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return slices.ContainsFunc(ws, func(w health.Warning) bool { return w.Code == code })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := patience.Of(5 * time.Second)
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}
