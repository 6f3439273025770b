// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strconv"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
)

// status is the agent's status, including what services report.
func (a *Agent) status() (api.Status, error) {
	s := a.state.Load()
	counters, err := a.datapath.Counters()
	if err != nil {
		return api.Status{}, fmt.Errorf("read the counters: %w", err)
	}
	node := s.Resolved.Node
	out := api.Status{
		Version:    a.options.Version,
		Agent:      a.options.Instance.ID,
		PID:        os.Getpid(),
		Started:    instant.Of(a.started),
		ConfigFile: a.options.ConfigFile,
		Loaded:     instant.Of(s.Loaded),
		Modified:   s.Modified,
		Node: api.Node{Name: a.nodeName(), ID: uint32(node.ID), IDWide: uint64(node.IDWide),
			TimestampFormat: node.TimestampFormat.String(), Compatibility: node.Compatibility.String(), Mode: string(s.Config.Node.Mode),
			StillActive: s.Config.StillActive()},
		Interfaces:     a.interfaces(s, counters),
		Namespaces:     service.NonNil(s.Config.Namespaces),
		Encapsulations: service.NonNil(s.Config.Encapsulations),
		Decapsulations: []netip.Addr{},
		Warnings:       service.NonNil(a.warnings()),
	}
	for _, d := range s.Config.Decapsulations {
		out.Decapsulations = append(out.Decapsulations, d.TunnelDestination)
	}
	for _, each := range a.services {
		each.Report(s, &out)
	}
	return out, nil
}

// interfaces lists all configured interfaces, also missing ones, in the configuration's
// order.
func (a *Agent) interfaces(s *service.State, counters []datapath.Counters) []api.Interface {
	resolved := map[string]model.Interface{}
	for _, i := range s.Resolved.Node.Interfaces {
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
	out := make([]api.Interface, 0, len(s.Config.Interfaces))
	for _, configured := range s.Config.Interfaces {
		i, there := resolved[configured.Name]
		one := api.Interface{
			Name:           configured.Name,
			Roles:          []string{},
			Boundary:       configured.Boundary.Default.String(),
			Namespaces:     policies(configured.Boundary),
			Forwarding:     string(configured.Forwarding),
			Ingress:        map[string]uint64{},
			Egress:         map[string]uint64{},
			IngressOptions: map[string]uint64{},
			EgressOptions:  map[string]uint64{},
		}
		for _, role := range configured.Role {
			one.Roles = append(one.Roles, role.String())
		}
		if there {
			one.Index, one.ID, one.IDWide, one.MTU = uint32(i.Index), uint16(i.ID), uint32(i.IDWide), i.MTU
			hooks, c := served[i.Index], counted[i.Index]
			one.IngressHook, one.EgressHook = string(hooks.Ingress), string(hooks.Egress)
			one.NativeXDPRefused = hooks.NativeXDPRefused
			one.Ingress, one.Egress = nonZero(c.Ingress), nonZero(c.Egress)
			one.IngressOptions, one.EgressOptions = nonZero(c.IngressOptions), nonZero(c.EgressOptions)
			one.Forwarded, one.ToStack = nonZero(c.Forwarded), service.CountsByName[datapath.StackReason](c.ToStack[:])
			one.RecordsWritten, one.RecordsLost = c.RecordsWritten, c.RecordsLost
			one.Postcards, one.ExportsSuppressed = c.Postcards, c.ExportsSuppressed
			one.Loopback = loopbackCounts(c.Loopback)
			one.Unmarked = service.CountsByName[datapath.UnmarkedCause](c.Unmarked[:])
			one.SRHMalformed = service.CountsByName[datapath.SRHFault](c.SRHMalformed[:])
			one.FlowsEvicted, one.SequencesEvicted = c.FlowsEvicted, c.SequencesEvicted
		}
		out = append(out, one)
	}
	return out
}

// policies are those of namespaces at the domain's edge.
func policies(b config.Boundary) map[string]string {
	out := make(map[string]string, len(b.Namespaces))
	for _, p := range b.Namespaces {
		out[strconv.Itoa(int(p.Namespace))] = p.Boundary.String()
	}
	return out
}

// loopbackCounts are without zeros.
func loopbackCounts(c datapath.LoopbackCounters) map[string]uint64 {
	out := map[string]uint64{"asked": c.Asked, "returned": c.Returned, "suppressed": c.Suppressed}
	maps.DeleteFunc(out, func(_ string, n uint64) bool { return n == 0 })
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
