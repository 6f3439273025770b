// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
)

// condition is how the agent is, in a line for the service manager.
func (a *Agent) condition() string {
	s := a.state.Load()
	served := make([]string, 0, len(s.resolved.Node.Interfaces))
	for _, i := range s.resolved.Node.Interfaces {
		served = append(served, i.Name)
	}
	parts := []string{"serves no interface"}
	if len(served) > 0 {
		parts[0] = "serves " + strings.Join(served, ", ")
	}
	if missing := s.resolved.Missing; len(missing) > 0 {
		parts = append(parts, "missing: "+strings.Join(missing, ", "))
	}
	if s.modified {
		parts = append(parts, "changed at runtime")
	}
	if fault := a.reloadFault.Load(); fault != nil {
		first, rest, _ := strings.Cut(*fault, "\n")
		text := "the last reload failed, what ran before runs on: " + first
		if n := len(strings.Split(rest, "\n")); rest != "" {
			text += fmt.Sprintf(" (and %d more)", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// ending is what becomes of packets.
func ending(remove bool) string {
	if remove {
		return "takes its programs away"
	}
	return "ends; packets keep their treatment"
}
