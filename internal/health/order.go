// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

// order warns where receive offload (GRO), here or at nodes after this one, sees headers of
// one TCP flow that differ: it joins only segments with equal headers, and segments that it does not
// join may overtake others.
func order(i Interface) (ws []Warning) {
	add := func(text, cure string) { ws = append(ws, New(OrderAtRisk, i.Name, text, cure)) }
	switch filled := i.GRO && i.Hook == "xdp" && i.Fills; {
	case filled && !i.Removes:
		add(
			fmt.Sprintf(
				"%s fills traces in native XDP, before receive offload (GRO): segments of a TCP flow get different times and are not "+
					"joined any more, but reordered",
				i.Name,
			),
			"attach: auto prefers tc there, after an 'agent stop --remove' if XDP is in place; or set attach: tcx, or forwarding: fast",
		)
	case filled && i.Keeps:
		add(
			fmt.Sprintf(
				"%s removes headers of one namespace and fills traces of another in native XDP, before receive offload (GRO), which "+
					"reorders the segments of a TCP flow: they got different times",
				i.Name,
			),
			"set forwarding: fast; or end that namespace at another node; or set attach: tcx, if its headers are equal within a flow",
		)
	case i.GRO && i.Hook != "xdp" && i.Removes && i.Veth:
		add(
			fmt.Sprintf(
				"%s removes headers in tc, after receive offload (GRO): where the headers of a TCP flow's segments differ, GRO has "+
					"reordered the segments",
				i.Name,
			),
			fmt.Sprintf("ethtool -K %s gro off", i.Name),
		)
	case i.GRO && i.Hook != "xdp" && i.Removes:
		add(
			fmt.Sprintf(
				"%s removes headers in tc, after receive offload (GRO): where the headers of a TCP flow's segments differ, GRO has "+
					"reordered the segments",
				i.Name,
			),
			fmt.Sprintf(
				"attach: auto takes native XDP where the driver has it, after an 'agent stop --remove' if tc is in place; or ethtool -K %s gro off",
				i.Name,
			),
		)
	}
	const after = "receive offload (GRO) of nodes after this one, if any has it on, reorders them"
	switch {
	case !i.Differs:
	case i.Forwards && i.Hook == "xdp": // in tc, GRO has joined them before
		add(
			fmt.Sprintf("%s forwards fast: segments of a TCP flow get headers that differ one by one; %s", i.Name, after),
			"if all of those forward fast in XDP or have GRO off, say so with node: {receive-offload: false}; otherwise trace whole "+
				"flows (flows: 1/n), with ids alone (type: 0xc00000)",
		)
	case !i.GRO && !i.Veth:
		add(fmt.Sprintf("%s has receive offload (GRO) off: segments of a TCP flow get headers that differ one by one; %s", i.Name, after),
			fmt.Sprintf("ethtool -K %s gro on, unless proofs or Edge-to-Edge options are inserted, which need single segments", i.Name))
	}
	return ws
}
