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
// they can distinguish a lost packet from a postcard that did not come. A time in which packets
// may have passed without the programs is in no report.
type reports struct {
	idle
	*core
	sinks  *sinks
	losses *losses
	known  *knownUntil

	node   model.NodeConfig
	served time.Time // since when the configuration is node
	seen   *state    // of which node is
	last   time.Time // until when the postcards were last read
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
	read := time.Now().Add(-settling)
	if r.seen == nil || read.Before(r.last) || s != r.seen && !reflect.DeepEqual(r.node, s.resolved.Node) {
		r.node, r.served, r.until = s.resolved.Node, read, read // nothing is said of the time before
	}
	r.seen, r.last = s, read
	if !r.datapath.ReadThrough() {
		return // the next report covers the time of this one
	}
	r.known.look(fewLooks)
	until := r.known.passed(read)
	since := r.datapath.Coverage().CompleteSince(until.UnixNano())
	if until.Before(r.until) || since > until.UnixNano() {
		return
	}
	lost, suppressed, err := r.losses.total()
	if err != nil {
		return
	}
	r.until = until
	report := sink.Report{Since: r.served, Until: until, Served: r.served, Suppressed: suppressed, Lost: lost, Namespaces: namespaces}
	if after := time.Unix(0, since); after.After(report.Since) {
		report.Since = after
	}
	r.sinks.tell(report)
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
