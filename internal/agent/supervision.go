// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
)

// supervision reports to the service manager.
type supervision struct {
	service.Idle
	*core
	condition func() string
}

// stuckAfter is longer than a change or a task takes: with very many interfaces that
// may be half a minute.
const stuckAfter = time.Minute

func (s *supervision) Run(ctx context.Context) error {
	stuck, n := false, 0
	s.tasks.Every(ctx, service.PollPeriod, func() {
		stuck = s.reportAlive(stuck)
		if n++; n%int(service.SamplePeriod/service.PollPeriod) == 0 {
			s.options.Manager.Status(s.condition())
		}
	})
	return nil
}

// reportAlive sends the service manager a watchdog signal, unless a change or a
// service's task does not end: then interfaces, the configuration and path MTUs are no
// longer followed, although this task still runs. It returns whether the agent is
// stuck.
func (s *supervision) reportAlive(before bool) (stuck bool) {
	now := time.Now()
	held := max(s.change.HeldFor(now), s.tasks.Longest(now))
	if held < stuckAfter {
		s.options.Manager.Alive()
		return false
	}
	if !before {
		s.log.Error(
			"a change or a task has not finished; the service manager gets no watchdog signal until it does",
			"after",
			held.Round(time.Second),
		)
	}
	return true
}

// condition is the agent's condition, in a line for the service manager.
func (a *Agent) condition() string {
	s := a.state.Load()
	served := make([]string, 0, len(s.Resolved.Node.Interfaces))
	for _, i := range s.Resolved.Node.Interfaces {
		served = append(served, i.Name)
	}
	parts, does := []string{"serves no interface"}, "serves "
	if s.Config.Node.Mode == config.ModeObserve {
		does = "only observes (node.mode: observe) "
	}
	if len(served) > 0 {
		parts[0] = does + strings.Join(served, ", ")
	}
	if missing := s.Resolved.Missing; len(missing) > 0 {
		parts = append(parts, "missing: "+strings.Join(missing, ", "))
	}
	if s.Modified {
		parts = append(parts, "changed at runtime")
	}
	if fault := a.reloads.fault.Load(); fault != nil {
		first, rest, _ := strings.Cut(*fault, "\n")
		text := "the last reload failed, the previous configuration stays in force: " + first
		if n := len(strings.Split(rest, "\n")); rest != "" {
			text += fmt.Sprintf(" (and %d more)", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// ending says how the agent ends, for the service manager.
func ending(remove bool) string {
	if remove {
		return "removes its programs"
	}
	return "stops; packets keep their treatment"
}
