// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// Treatments of several experiments.
var (
	untreated = harness.Treatment{Name: "untreated"}
	kernelOwn = harness.KernelIn(namespace, mostOptions)
	// emptyArrival and emptyDeparture have a single hook on the packets' path.
	emptyArrival   = harness.Treatment{Name: "empty program at xdp ingress", Hooks: []harness.EmptyHook{{}}, Attach: datapath.AttachXDP}
	emptyDeparture = harness.Treatment{
		Name:   "empty program at tcx egress",
		Hooks:  []harness.EmptyHook{{Out: true, Egress: true}},
		Attach: datapath.AttachTCX,
	}
)

func emptyHooks(mode datapath.AttachMode) harness.Treatment {
	return harness.Treatment{Name: "empty programs at " + string(mode), Hooks: harness.EveryHook, Attach: mode}
}

// transit is a transit node in every namespace of the experiments.
func transit(mode datapath.AttachMode) harness.Treatment {
	return harness.Treatment{Name: "transit at " + string(mode), Attach: mode, Config: func(in, out model.IfIndex) model.NodeConfig {
		return place(nodeConfig(), in, out)
	}}
}

// place sets the interfaces of a configuration.
func place(c model.NodeConfig, in, out model.IfIndex) model.NodeConfig {
	c.Interfaces[0].Index, c.Interfaces[0].Name = in, "n0"
	c.Interfaces[1].Index, c.Interfaces[1].Name = out, "n1"
	for i := range c.Encapsulations {
		c.Encapsulations[i].Interface = out
	}
	return c
}

// encapsulate adds options to packets from outside the domain: only the interface
// where they leave is served.
func encapsulate(mode model.Mode, frequency model.Frequency, options ...model.TraceOption) harness.Treatment {
	name := fmt.Sprintf("encapsulation mode %d, %d of %d, %v", mode, frequency.K, frequency.N, options)
	return harness.Treatment{Name: name, Attach: datapath.AttachTCX, Config: func(in, out model.IfIndex) model.NodeConfig {
		c := place(encapsulation(mode, options...), in, out)
		c.Encapsulations[0].Frequency = frequency
		c.Interfaces = c.Interfaces[1:]
		return c
	}}
}

// decapsulate removes the tunnel, or inline options in any namespace.
func decapsulate(mode model.Mode, read bool) harness.Treatment {
	name, by := fmt.Sprintf("decapsulation mode %d, records read: %v", mode, read), harness.Unread
	if read {
		by = harness.ReadOnly
	}
	return harness.Treatment{Name: name, Attach: datapath.AttachXDP, Read: by, Config: func(in, out model.IfIndex) model.NodeConfig {
		c := place(nodeConfig(), in, out)
		if mode == model.ModeInline {
			for i := range c.Namespaces {
				c.Namespaces[i].Remove = true
			}
			return c
		}
		c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd}}
		return c
	}}
}

// forwardingFast makes the node forward without the stack. Both interfaces are
// then served; one where packets arrive from outside the domain has no role.
func forwardingFast(t harness.Treatment) harness.Treatment {
	config := t.Config
	t.Name, t.Fast, t.Attach = "fast forwarding, "+t.Name, true, datapath.AttachXDP
	t.Config = func(in, out model.IfIndex) model.NodeConfig {
		c := config(in, out)
		if len(c.Interfaces) == 1 {
			outside := place(nodeConfig(), in, out).Interfaces[0]
			outside.Roles = 0
			c.Interfaces = append([]model.Interface{outside}, c.Interfaces...)
		}
		return c
	}
	return t
}
