// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// interfaces tells of every configured interface, also of those that are
// missing, in the configuration's order.
func (a *Agent) interfaces(s *state, counters []datapath.Counters) []api.Interface {
	resolved := map[string]model.Interface{}
	for _, i := range s.resolved.Node.Interfaces {
		resolved[i.Name] = i
	}
	served := map[model.IfIndex]datapath.InterfaceStatus{}
	for _, i := range a.datapath.Interfaces() {
		served[i.Index] = i
	}
	counted := map[model.IfIndex]datapath.Counters{}
	for _, c := range counters {
		counted[c.Index] = c
	}
	out := make([]api.Interface, 0, len(s.config.Interfaces))
	for _, configured := range s.config.Interfaces {
		i, there := resolved[configured.Name]
		one := api.Interface{Name: configured.Name, Roles: []string{}, Boundary: configured.Boundary.String(),
			Forwarding: string(configured.Forwarding), Ingress: map[string]uint64{}, Egress: map[string]uint64{}}
		for _, role := range configured.Role {
			one.Roles = append(one.Roles, role.String())
		}
		if there {
			one.Index, one.ID, one.IDWide, one.MTU = uint32(i.Index), uint16(i.ID), uint32(i.IDWide), i.MTU
			hooks, c := served[i.Index], counted[i.Index]
			one.IngressHook, one.EgressHook = string(hooks.Ingress), string(hooks.Egress)
			one.NativeXDPRefused = hooks.NativeXDPRefused
			one.Ingress, one.Egress = nonZero(c.Ingress), nonZero(c.Egress)
			one.Forwarded, one.ToStack = nonZero(c.Forwarded), reasons(c.ToStack)
			one.RecordsWritten, one.RecordsLost = c.RecordsWritten, c.RecordsLost
			one.Postcards, one.ExportsSuppressed = c.Postcards, c.ExportsSuppressed
			one.FlowsEvicted, one.SequencesEvicted = c.FlowsEvicted, c.SequencesEvicted
		}
		out = append(out, one)
	}
	return out
}

func reasons(counts [datapath.NumStackReasons]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for r, n := range counts {
		if n > 0 {
			out[datapath.StackReason(r).String()] = n
		}
	}
	return out
}

func nonZero(counts [model.NumOutcomes]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for _, o := range model.Outcomes() {
		if counts[o] > 0 {
			out[o.String()] = counts[o]
		}
	}
	return out
}
