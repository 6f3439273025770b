// SPDX-License-Identifier: Apache-2.0

package model

// Observing is the node with the same interfaces that changes no packet: it inserts, fills,
// removes, marks, copies and drops nothing, and counts what passes. It knows neither
// namespaces nor tunnels, so the data plane has no rule by which it could do more.
func (c NodeConfig) Observing() NodeConfig {
	out := NodeConfig{
		ID: c.ID, IDWide: c.IDWide, TimestampFormat: c.TimestampFormat, Uppers: c.Uppers, FlowSeed: c.FlowSeed, FlowEntries: c.FlowEntries,
		Interfaces: make([]Interface, len(c.Interfaces)),
	}
	for i, in := range c.Interfaces {
		in.Boundary, in.Policies = BoundaryIgnore, nil
		out.Interfaces[i] = in
	}
	return out
}
