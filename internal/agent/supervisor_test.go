// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// serviceManager receives what services report, like systemd.
type serviceManager struct {
	t      *testing.T
	socket *net.UnixConn
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return &serviceManager{t, socket}
}

// next is the next message with this line, or one that begins so; those before it may
// only be watchdog signals and states.
func (m *serviceManager) next(begin string) []string {
	m.t.Helper()
	buffer := make([]byte, 4096)
	for {
		_ = m.socket.SetReadDeadline(time.Now().Add(patience.Of(10 * time.Second)))
		n, err := m.socket.Read(buffer)
		if err != nil {
			m.t.Fatalf("no message %s: %v", begin, err)
		}
		lines := strings.Split(string(buffer[:n]), "\n")
		if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, begin) }) {
			return lines
		}
		if lines[0] != "WATCHDOG=1" && !strings.HasPrefix(lines[0], "STATUS=") {
			m.t.Fatalf("%q came before %s", lines, begin)
		}
	}
}

func (m *serviceManager) want(lines ...string) {
	m.t.Helper()
	if got := m.next(lines[0]); !slices.Equal(got, lines) {
		m.t.Errorf("the service manager hears %q, want %q", got, lines)
	}
}

// reloading checks for the start of a reload, with the current time of the monotonic
// clock (systemd.service(5)).
func (m *serviceManager) reloading() {
	m.t.Helper()
	var now unix.Timespec
	lines := m.next("RELOADING=1")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "MONOTONIC_USEC=") })
	if i < 0 {
		m.t.Fatalf("a reload without its time: %q", lines)
	}
	at, err := strconv.ParseInt(strings.TrimPrefix(lines[i], "MONOTONIC_USEC="), 10, 64)
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		m.t.Fatal(err)
	}
	if err != nil || at > now.Nano()/1000 || now.Nano()/1000-at > patience.Of(time.Minute).Microseconds() || slices.Contains(lines, "") {
		m.t.Errorf("a reload at %q, now %d", lines, now.Nano()/1000)
	}
}

// An agent under a service manager reports each step: also that it is ready again after
// a refused file, because the previous configuration stays in force.
func TestServiceManager(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "60000000")
	h := newHarness(t, "node: {id: 2}\ninterfaces: [{name: eth0, role: [ingress]}, {name: eth9}]\n")
	h.manager = supervisor.New(slog.New(slog.DiscardHandler))
	h.Start()
	m.want("READY=1", "STATUS=serves eth0; missing: eth9")
	m.next("WATCHDOG=1")

	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.reloading()
	m.want("READY=1", "STATUS=serves eth0; missing: eth9")

	h.Write("node: {id: 2, mode: observe}\ninterfaces: [{name: eth0, role: [ingress]}, {name: eth9}]\n")
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.reloading()
	m.want("READY=1", "STATUS=only observes (node.mode: observe) eth0; missing: eth9")
	h.Write("node: {id: 2}\ninterfaces: [{name: eth0, role: [ingress]}, {name: eth9}]\n")
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.reloading()
	m.want("READY=1", "STATUS=serves eth0; missing: eth9")

	h.Write("node: {id: x}\ninterfaces: [{name: eth0, color: red}]\n")
	if _, err := h.Client.Reload(t.Context()); err == nil {
		t.Fatal("a broken file was loaded")
	}
	m.reloading()
	got := m.next("READY=1")
	if !regexp.MustCompile(`^STATUS=serves eth0; missing: eth9; the last reload failed, the previous configuration stays in force: ` +
		`.*node\.yaml:1:12: .* \(and 1 more\)$`).
		MatchString(got[len(got)-1]) {
		t.Errorf("after a refused file: %q", got)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	m.want("STOPPING=1", "STATUS=stops; packets keep their treatment")
}

// An agent whose change does not end sends no watchdog signal, although its timers
// still run: the service manager should restart it.
func TestWatchdogSeesAStuckChange(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "60000000")
	h := newHarness(t, agenttest.BaseConfig)
	h.manager = supervisor.New(slog.New(slog.DiscardHandler))
	h.Start()
	m.next("READY=1")
	long := func(held time.Duration) {
		h.agent.change.LockSince(func() time.Time { return time.Now().Add(-held) })
	}
	long(30 * time.Second)
	m.next("WATCHDOG=1") // as long as a large configuration may take

	h.agent.change.Unlock()
	long(stuckAfter)
	for silent := false; !silent; {
		_ = m.socket.SetReadDeadline(time.Now().Add(2*service.PollPeriod + service.PollPeriod/2))
		_, err := m.socket.Read(make([]byte, 4096))
		if silent = err != nil; !silent && h.agent.change.HeldFor(time.Now()) > stuckAfter+10*service.PollPeriod {
			t.Error("the agent says that it is alive")
			break
		}
	}
	if n := strings.Count(h.Log.String(), "has not finished"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, h.Log)
	}
	h.agent.change.Unlock()
	m.next("WATCHDOG=1")

	// the same for a task that does not end
	end := h.agent.tasks.Begin(time.Now().Add(-stuckAfter))
	agenttest.Eventually(t, "the log says that a task is stuck", func() bool { return strings.Count(h.Log.String(), "has not finished") == 2 })
	end()
	m.next("WATCHDOG=1")
	if h.agent.change.HeldFor(time.Now()) != 0 {
		t.Error("a lock that nothing holds is held")
	}
}

// Without a service manager, or with one that does not listen, the agent runs;
// the log says so once.
func TestServiceManagerAway(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none")} {
		t.Setenv("NOTIFY_SOCKET", path)
		var log bytes.Buffer
		m := supervisor.New(slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			m.Ready("x")
			m.Alive()
		}
		if got := strings.Count(log.String(), "\n"); got != map[bool]int{true: 0, false: 1}[path == ""] {
			t.Errorf("%q: the log is %q", path, &log)
		}
	}
	var none *supervisor.Manager
	none.Ready("x")
	none.Reloading()
	none.Status("x")
	none.Alive()
	none.Stopping("x")
}
