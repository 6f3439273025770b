// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// MissingUncovered warns of a configured interface that this host does not have, at which
// packets of measured flows would be counted.
func MissingUncovered(name string) Warning {
	return New(
		FlowsUncovered,
		name,
		fmt.Sprintf(
			"%s is configured and is not there: packets of measured flows may arrive or leave by another interface, so no block is measured",
			name,
		),
		"give the interface its name again, or remove it from interfaces and reload",
	)
}

// UnservedUncovered warns of packets of measured flows that passed an interface which the
// configuration does not name. flow is one of them.
func UnservedUncovered(name, flow string, flows int) Warning {
	text := fmt.Sprintf(
		"packets of flow %s arrive by %s, which is not under interfaces: they are not counted, so its blocks are not measured",
		flow,
		name,
	)
	if flows > 1 {
		text = fmt.Sprintf(
			"packets of %d measured flows, such as %s, arrive by %s, which is not under interfaces: they are not counted, so their "+
				"blocks are not measured",
			flows,
			flow,
			name,
		)
	}
	return New(FlowsUncovered, name, text,
		fmt.Sprintf("add {name: %s, boundary: ignore} to interfaces and reload, or find out why the route changed: ip -6 route", name))
}

// NotExecutedUncovered warns of an interface whose programs do not run for all packets.
func NotExecutedUncovered(name string) Warning {
	return New(FlowsUncovered, name,
		fmt.Sprintf("the programs of %s do not run for all packets: those of measured flows are not counted, so no block is measured", name),
		"remove the program that stands before Waymark's there (bpftool net), or let it continue")
}
