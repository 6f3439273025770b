// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"reflect"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink"
)

// reportPeriod is how often collectors hear until when postcards were reported. A path
// whose postcards do not come is judged after collect's --wait, which should be several
// times as long.
const reportPeriod = 500 * time.Millisecond

// fewLooks is at how many interfaces with clsact one looks who does so often.
const fewLooks = 256

// settling is longer than a program takes from reading the clock for a postcard until it
// has written it.
const settling = 10 * time.Millisecond

// Collectors get reports until when postcards are complete, if there are any.
type Collectors interface {
	Any() bool
	Tell(sink.Report)
}

// Gaps notes the times in which packets may have passed the programs.
type Gaps interface {
	// Look looks for such times, at the hooks of most interfaces at most where that is slow.
	Look(most int)
	// NotedUntil is until when all of them are noted. A hook that counts nothing for the quiet
	// time counts as idle.
	NotedUntil(now time.Time, quiet time.Duration) time.Time
}

// Completeness tells collectors until when the postcards of this node are complete, so that
// they can distinguish a lost packet from a postcard that did not come. A time in which packets
// may have passed without the programs is in no report.
type Completeness struct {
	service.Idle
	d      Dependencies
	to     Collectors
	losses *RecordLosses
	gaps   Gaps

	node   model.NodeConfig
	served time.Time      // since when the configuration is node
	seen   *service.State // of which node is
	last   time.Time      // until when the postcards were last read
	until  time.Time      // of the last report
}

// NewCompleteness makes the service; losses are in each report, and gaps in none.
func NewCompleteness(d Dependencies, to Collectors, losses *RecordLosses, known Gaps) *Completeness {
	return &Completeness{d: d, to: to, losses: losses, gaps: known}
}

func (r *Completeness) Run(ctx context.Context) error {
	r.d.Tasks.Every(ctx, reportPeriod, r.sendReport)
	return nil
}

// sendReport makes one report, if this node makes postcards and all were read.
func (r *Completeness) sendReport() {
	s := r.d.State.Load()
	if s == nil {
		return
	}
	namespaces := postcardNamespaces(s.Resolved.Node)
	if len(namespaces) == 0 || !r.to.Any() {
		r.seen = nil // begin again, later
		return
	}
	read := time.Now().Add(-settling)
	if r.seen == nil || read.Before(r.last) || s != r.seen && !reflect.DeepEqual(r.node, s.Resolved.Node) {
		r.node, r.served, r.until = s.Resolved.Node, read, read // nothing is said of the time before
	}
	r.seen, r.last = s, read
	if !r.d.Datapath.ReadThrough() {
		return // the next report covers the time of this one
	}
	r.gaps.Look(fewLooks)
	until := r.gaps.NotedUntil(read, reportPeriod/2)
	since := r.d.Datapath.Coverage().CompleteSince(until.UnixNano())
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
	r.to.Tell(report)
}
