// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// order warns where receive offload (GRO) sees headers of one TCP flow that differ: it
// joins only equal ones, and of those that it keeps apart, some overtake others.
func order(i Interface) []Warning {
	switch {
	case !i.GRO:
		return nil
	case i.Hook == "xdp" && i.Fills && !i.Removes:
		return []Warning{New(OrderAtRisk, i.Name,
			fmt.Sprintf("%s fills traces in native XDP, before receive offload (GRO): segments of a TCP flow get different times and are not joined any more, but reordered", i.Name),
			"attach: auto prefers tc there, after an 'agent stop --remove' if XDP is in place; or set attach: tcx, or forwarding: fast")}
	case i.Hook != "xdp" && i.Removes:
		return []Warning{New(OrderAtRisk, i.Name,
			fmt.Sprintf("%s removes headers in tc, after receive offload (GRO): where the headers of a TCP flow's segments differ, GRO has reordered the segments", i.Name),
			fmt.Sprintf("attach: auto takes native XDP where the driver has it, after an 'agent stop --remove' if tc is in place; or ethtool -K %s gro off", i.Name))}
	}
	return nil
}
