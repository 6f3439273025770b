// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/model"
)

// addQueues adds what packets waited in this node's queues, also to the hops that are this node. A packet that two
// devices queue, such as a bridge and its port, is once at each, and a hop has the wait of its own interface.
func addQueues(r *insight.Report, q *insight.Queues, node *model.NodeConfig) {
	r.Queues = q
	if q == nil {
		return
	}
	waits := make(map[string]*insight.Quantiles)
	for _, one := range q.Interfaces {
		waits[one.Interface] = one.Waits
	}
	for i := range r.Pairs {
		for j := range r.Pairs[i].Paths {
			hops := r.Pairs[i].Paths[j].Hops
			for k := range hops {
				hops[k].Queued = waits[egressHere(&hops[k].Place, node)]
			}
		}
	}
}

// egressHere is the name of the interface by which packets leave, if the place is this node; else empty.
func egressHere(p *insight.Place, node *model.NodeConfig) string {
	if p.EgressID == 0 || p.NodeID == 0 || p.Wide && p.NodeID != uint64(node.IDWide) || !p.Wide && p.NodeID != uint64(node.ID) {
		return ""
	}
	for i := range node.Interfaces {
		if in := &node.Interfaces[i]; p.EgressID == uint64(in.ID) || p.EgressID == uint64(in.IDWide) {
			return in.Name
		}
	}
	return ""
}
