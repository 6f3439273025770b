// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/supervisor"
)

const reportOfLife = "WATCHDOG=1"

// heard is what a service manager hears.
type heard struct {
	t      *testing.T
	socket *net.UnixConn
}

// watched is a manager with a watchdog, for this process.
func watched(t *testing.T) (*supervisor.Manager, *heard) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "60000000")
	t.Setenv("WATCHDOG_PID", "")
	return supervisor.New(slog.New(slog.DiscardHandler)), &heard{t, socket}
}

// hears reports whether a message with this text comes within a time.
func (h *heard) hears(text string, within time.Duration) bool {
	h.t.Helper()
	if err := h.socket.SetReadDeadline(time.Now().Add(within)); err != nil {
		h.t.Fatal(err)
	}
	for b := make([]byte, 1000); ; {
		n, err := h.socket.Read(b)
		if err != nil {
			return false
		}
		if strings.Contains(string(b[:n]), text) {
			return true
		}
	}
}

// The service manager hears that the collector lives while its stages answer, and no more when one hangs.
func TestStuckStageIsNotAlive(t *testing.T) {
	m, h := watched(t)
	hangs := make(chan struct{})
	looks := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	release := make(chan struct{})
	go func() {
		defer close(ended)
		reportAlive(ctx, m, func() (string, bool) {
			looks <- struct{}{}
			select {
			case <-hangs:
				<-release
			default:
			}
			return "it receives", true
		}, 5*time.Millisecond, 20*time.Millisecond)
	}()
	if !h.hears(reportOfLife, patience.Of(10*time.Second)) {
		t.Error("no report of a collector that lives")
	}
	close(hangs)
	for len(looks) > 0 {
		<-looks
	}
	for range 3 { // looks that hang
		<-looks
	}
	for h.hears(reportOfLife, time.Millisecond) { // reports of before
	}
	for range 5 { // attempts, each of which hangs
		<-looks
	}
	if h.hears(reportOfLife, time.Millisecond) {
		t.Error("a collector whose stage hangs is alive")
	}
	close(release)
	cancel()
	<-ended
}

// A collector whose disk does not answer while the store writes is not alive, and says so; it is alive again when the
// disk answers.
func TestStuckStoreIsNotAlive(t *testing.T) {
	m, h := watched(t)
	hang, release := make(chan struct{}), make(chan struct{})
	answer := sync.OnceFunc(func() { close(release) })
	r := run(t, fmt.Sprintf(file, t.TempDir()), func(d *Daemon) {
		d.Manager, d.stuck = m, patience.Of(3*time.Second)
		d.free = func() (uint64, error) { // the store asks for it before each transaction
			select {
			case <-hang:
				<-release
			default:
			}
			return 1 << 40, nil
		}
	})
	t.Cleanup(answer) // or the collector does not end after a failure
	if !h.hears(reportOfLife, patience.Of(10*time.Second)) {
		t.Error("no report of a collector that lives")
	}
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	close(hang)
	if err := s.Send(10); err != nil {
		t.Fatal(err)
	}
	if !h.hears("STATUS=the store has done nothing for ", patience.Of(20*time.Second)) {
		t.Fatal("a collector whose store hangs does not say so")
	}
	if h.hears(reportOfLife, 3*aliveInterval) {
		t.Error("a collector whose store hangs is alive")
	}
	answer()
	if !h.hears(reportOfLife, patience.Of(10*time.Second)) {
		t.Error("a collector whose store goes on is not alive")
	}
}
