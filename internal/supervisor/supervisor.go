// SPDX-License-Identifier: Apache-2.0

// Package supervisor reports to the service manager what an agent or a collector does, by the
// protocol of sd_notify(3), and lets it keep sockets while the program is restarted.
package supervisor

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Environment are the variables by which a service manager says where to report,
// and to whom it speaks: they are not for other processes.
var Environment = []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}

// Manager is the service manager that the environment names. A nil Manager is
// none.
type Manager struct {
	log      *slog.Logger
	watchdog bool // it wants to hear that we live

	mu     sync.Mutex
	status string
	failed bool // the log has it
}

// New is the manager of this process; without one, its reports go nowhere.
func New(log *slog.Logger) *Manager {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog reports to the service manager failed", "error", err)
	}
	return &Manager{log: log, watchdog: period > 0}
}

// Ready reports that the service is up, or that a reload is over, and its state.
func (m *Manager) Ready(status string) { m.report(status, daemon.SdNotifyReady) }

// Reloading reports that a reload begins; Ready follows, also when it fails.
func (m *Manager) Reloading() {
	m.report("loads the configuration", daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
}

// Stopping reports that the service ends.
func (m *Manager) Stopping(status string) { m.report(status, daemon.SdNotifyStopping) }

// Status reports the state, where it has changed.
func (m *Manager) Status(status string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	same := m.status == oneLine(status)
	m.mu.Unlock()
	if !same {
		m.report(status)
	}
}

// Alive is to be called a few times in the period of the watchdog, by whatever
// must not stand still.
func (m *Manager) Alive() {
	if m != nil && m.watchdog {
		m.send(daemon.SdNotifyWatchdog)
	}
}

func (m *Manager) report(status string, lines ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.status = oneLine(status)
	m.mu.Unlock()
	m.send(strings.Join(append(lines, "STATUS="+oneLine(status)), "\n"))
}

// oneLine is what a message can hold.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// send sends one message, with descriptors or without. A failure is logged once: nothing else is harmed.
func (m *Manager) send(message string, files ...int) {
	var err error
	if len(files) > 0 {
		err = sendFiles(message, files)
	} else {
		_, err = daemon.SdNotify(false, message)
	}
	m.mu.Lock()
	again := m.failed
	m.failed = err != nil
	m.mu.Unlock()
	if err != nil && !again {
		m.log.Warn("a report to the service manager failed", "error", err)
	}
}
