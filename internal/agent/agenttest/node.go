// SPDX-License-Identifier: Apache-2.0

// Package agenttest has what tests of the agent and of its services share: a fake machine, a fake
// data plane, a client of the API, and a small agent that runs some services alone.
package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
)

// Node is what a test's agent runs on, with a client of its API.
type Node struct {
	T        *testing.T
	Instance api.Instance
	File     string // of the configuration
	Datapath *Datapath
	System   *System
	Client   *api.Client
	Log      *Log
	Done     chan error // what the agent returned; who takes it puts it back
	cancel   context.CancelFunc

	// PrepareAgent makes an agent, which calls ready once it runs.
	PrepareAgent func(ready func()) (run func(context.Context) error)
}

// Log is a log that a test reads while it is written.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *Log) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *Log) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// New is a node with a configuration file.
func New(t *testing.T, yaml string) *Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "wm") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &Node{
		T: t, Instance: api.At(filepath.Join(dir, "run"), 42), File: filepath.Join(dir, "node.yaml"),
		Datapath: NewDatapath(), System: NewSystem(),
	}
	h.Client = api.NewClient(h.Instance.Socket())
	h.Write(yaml)
	return h
}

// Write replaces the configuration file.
func (h *Node) Write(yaml string) {
	h.T.Helper()
	if err := os.WriteFile(h.File, []byte(yaml), 0o600); err != nil {
		h.T.Fatal(err)
	}
}

// Run starts an agent and returns its error if it does not get ready.
func (h *Node) Run() error {
	h.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	h.Log = &Log{}
	h.cancel, h.Done = cancel, make(chan error, 1)
	run := h.PrepareAgent(func() { close(ready) })
	go func() { h.Done <- run(ctx) }()
	select {
	case err := <-h.Done:
		cancel()
		return err
	case <-ready:
		h.T.Cleanup(func() { h.End() })
		return nil
	}
}

// Start starts an agent.
func (h *Node) Start() {
	h.T.Helper()
	if err := h.Run(); err != nil {
		h.T.Fatalf("the agent did not start: %v", err)
	}
}

// End stops the agent as a signal does.
func (h *Node) End() error {
	h.cancel()
	select {
	case err := <-h.Done:
		h.Done <- err
		return err
	case <-time.After(patience.Of(10 * time.Second)):
		return errors.New("the agent did not end")
	}
}

// Crash ends the agent like kill −9: nothing is cleaned up except the lock and the
// socket, which the kernel closes.
func (h *Node) Crash() {
	h.T.Helper()
	kept, err := os.ReadFile(h.Instance.RunningFile())
	if err := h.End(); err != nil {
		h.T.Fatal(err)
	}
	if err == nil {
		if err := os.WriteFile(h.Instance.RunningFile(), kept, 0o600); err != nil {
			h.T.Fatal(err)
		}
	}
}

// Status is the agent's status, from its API.
func (h *Node) Status() api.Status {
	h.T.Helper()
	s, err := h.Client.Status(context.Background())
	if err != nil {
		h.T.Fatal(err)
	}
	return s
}

// Warned reports whether a warning is in force.
func (h *Node) Warned(code health.Code) bool {
	h.T.Helper()
	ws, err := h.Client.Warnings(context.Background())
	if err != nil {
		h.T.Fatal(err)
	}
	return slices.ContainsFunc(ws, func(w health.Warning) bool { return w.Code == code })
}

// Series is the value of a series in the agent's metrics; false if it has none.
func (h *Node) Series(name string) (n float64, ok bool) {
	h.T.Helper()
	b, err := h.Client.Metrics(context.Background())
	if err != nil {
		h.T.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(b), "\n"+name+" ")
	_, err = fmt.Sscan(rest, &n)
	return n, found && err == nil
}

// Request calls the API without the client, like curl.
func (h *Node) Request(method, path, body string) (int, string) {
	h.T.Helper()
	c := http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", h.Instance.Socket())
		}},
	}
	req, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		h.T.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		h.T.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.T.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Eventually waits until something is so.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := patience.Of(5 * time.Second)
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// FreePort is a UDP port that nothing uses.
func FreePort(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	return port
}
