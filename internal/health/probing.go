// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
)

// ProbesNotSent warns that the probes of the configuration are not sent.
func ProbesNotSent(why, cure string) Warning {
	return New(ProbesStopped, "", "probes are not sent: "+why, cmp.Or(cure, "correct it; the agent tries again every few seconds"))
}

// ProbesVanish warns of probes to a destination that are not answered; never: they never were.
func ProbesVanish(destination, text string, never bool) Warning {
	if never {
		return New(ProbesUnanswered, "", text,
			fmt.Sprintf("check that the agent of %s runs with path-trace, that its allow has this node and its namespaces the one of probes, "+
				"and 'waymark probes %s'", destination, destination))
	}
	return New(ProbesLost, "", text, fmt.Sprintf("look at the link and the nodes there, and at 'waymark probes %s'", destination))
}

// ProbesTooMany warns that other nodes with the same list of probes send more than this one answers.
func ProbesTooMany(arriving, rate int) Warning {
	text := fmt.Sprintf(
		"other nodes with the same probes send %d probes a second to this node, which answers %d: the others look lost",
		arriving,
		rate,
	)
	return New(ProbesBeyondRate, "", text,
		fmt.Sprintf("set path-trace.rate to at least %d", arriving+arriving/10))
}
