// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// The service manager hears that the collector lives while its stages answer, and no more when one hangs.
func TestStuckStageIsNotAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "60000000")
	t.Setenv("WATCHDOG_PID", "")
	m := supervisor.New(slog.New(slog.DiscardHandler))
	hangs := make(chan struct{})
	looks := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	release := make(chan struct{})
	go func() {
		defer close(ended)
		reportAlive(ctx, m, func() string {
			looks <- struct{}{}
			select {
			case <-hangs:
				<-release
			default:
			}
			return "it receives"
		}, 5*time.Millisecond, 20*time.Millisecond)
	}()
	alive := func(within time.Duration) bool {
		b := make([]byte, 1000)
		for end := time.Now().Add(within); ; {
			if err := socket.SetReadDeadline(end); err != nil {
				t.Fatal(err)
			}
			n, err := socket.Read(b)
			if err != nil {
				return false
			}
			if strings.Contains(string(b[:n]), "WATCHDOG=1") {
				return true
			}
		}
	}
	if !alive(patience.Of(10 * time.Second)) {
		t.Error("no report of a collector that lives")
	}
	close(hangs)
	for len(looks) > 0 {
		<-looks
	}
	for range 3 { // looks that hang
		<-looks
	}
	for alive(time.Millisecond) { // reports of before
	}
	for range 5 { // attempts, each of which hangs
		<-looks
	}
	if alive(time.Millisecond) {
		t.Error("a collector whose stage hangs is alive")
	}
	close(release)
	cancel()
	<-ended
}
