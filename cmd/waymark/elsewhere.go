// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/shellword"
)

func localElsewhere() []instances.Other {
	instance, err := api.Here()
	if err != nil {
		return nil
	}
	return instances.Elsewhere(api.Root, instances.NamespaceDirectory, instance)
}

// mostElsewhere is how many agents of other network namespaces an error names.
const mostElsewhere = 8

// elsewhere says which other network namespaces have agents, and how to ask one; "" if none has.
func (o *options) elsewhere() string {
	if o.agentsElsewhere == nil {
		return ""
	}
	list := o.agentsElsewhere()
	if len(list) == 0 {
		return ""
	}
	var names []string
	for _, other := range list[:min(len(list), mostElsewhere)] {
		names = append(names, cmp.Or(nodenames.Printable(other.Namespace), other.Instance.ID))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	first := list[0]
	ask := "waymark --socket " + first.Instance.Socket() + " " + o.question()
	if first.Namespace != "" {
		ask = "ip netns exec " + nodenames.Printable(first.Namespace) + " waymark " + o.question()
	}
	return fmt.Sprintf("; other network namespaces have one: %s; ask the first with: %s", strings.Join(names, ", "), ask)
}

// shows are commands that change nothing, so that they may be repeated with any agent.
var shows = []string{"doctor", "events", "loss", "observe", "probes", "queue", "status", "top"}

// question is what to ask another agent: what was asked here if that changes nothing, else its status.
func (o *options) question() string {
	command := slices.IndexFunc(o.asked, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if command < 0 || !slices.Contains(shows, o.asked[command]) {
		return "status"
	}
	return shellword.Join(o.asked)
}
