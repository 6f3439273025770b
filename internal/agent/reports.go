// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"reflect"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink"
)

// reportPeriod is how often collectors hear until when postcards were reported. A path
// whose postcards do not come is judged after collect's --wait, which should be several
// times as long.
const reportPeriod = 500 * time.Millisecond

// settling is longer than a program takes from reading the clock for a postcard until it
// has written it.
const settling = 10 * time.Millisecond

// reports tells collectors until when the postcards of this node are complete, so that
// they can distinguish a lost packet from a postcard that did not come.
type reports struct {
	idle
	*core
	sinks  *sinks
	losses *losses

	node   model.NodeConfig
	served time.Time // since when the configuration is node
	seen   *state    // of which node is
	until  time.Time // of the last report
}

func (r *reports) run(ctx context.Context) error {
	r.tasks.every(ctx, reportPeriod, r.tell)
	return nil
}

// tell makes one report, if this node makes postcards and all were read.
func (r *reports) tell() {
	s := r.state.Load()
	if s == nil {
		return
	}
	namespaces := postcardNamespaces(s.resolved.Node)
	if len(namespaces) == 0 || !r.sinks.any() {
		r.seen = nil // begin anew, later
		return
	}
	until := time.Now().Add(-settling)
	if r.seen == nil || until.Before(r.until) || s != r.seen && !reflect.DeepEqual(r.node, s.resolved.Node) {
		r.node, r.served = s.resolved.Node, until // nothing is said of the time before
	}
	r.seen = s
	if !r.datapath.ReadThrough() {
		return // the next report covers the time of this one
	}
	lost, suppressed, err := r.losses.total()
	if err != nil {
		return
	}
	r.until = until
	r.sinks.tell(sink.Report{Since: r.served, Until: until, Served: r.served, Suppressed: suppressed, Lost: lost, Namespaces: namespaces})
}

// postcardNamespaces are the namespaces in which a node makes postcards.
func postcardNamespaces(node model.NodeConfig) (list []sink.Reported) {
	for _, ns := range node.Namespaces {
		switch ns.Export {
		case model.ExportEvery:
			list = append(list, sink.Reported{Namespace: ns.ID, Sampling: 1})
		case model.ExportSample:
			list = append(list, sink.Reported{Namespace: ns.ID, Sampling: max(ns.Sample, 1)})
		}
	}
	return list
}
