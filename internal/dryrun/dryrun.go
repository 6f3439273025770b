// SPDX-License-Identifier: Apache-2.0

// Package dryrun says what a configuration would do to the packets that pass now: it reads
// copies of them from packet sockets and gives these to the reference node. It loads no
// program, changes no packet, and leaves nothing when it ends.
package dryrun

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
)

// Options are what a run needs.
type Options struct {
	Node  model.NodeConfig // resolved for this machine
	IsOwn func(netip.Addr) bool
	For   time.Duration
	Ready func() // when not nil, is called once packets are read
}

// Report is what the configuration would have done.
type Report struct {
	Seconds    float64     `json:"seconds"`
	Interfaces []Interface `json:"interfaces"`
	// Unread packets were not looked at: they came too fast.
	Unread uint64 `json:"unread"`
}

// Interface is what it would have done at one interface.
type Interface struct {
	Name    string `json:"name"`
	Ingress Hook   `json:"ingress"`
	Egress  Hook   `json:"egress"`
}

// Hook counts packets in one direction, by what would have become of them.
type Hook struct {
	Packets  uint64            `json:"packets"`
	Headers  uint64            `json:"headers"`   // would have got a header
	TooLarge uint64            `json:"too_large"` // would not have fit the MTU with it, and pass without
	Removed  uint64            `json:"removed"`   // would have lost a header or options
	Filled   uint64            `json:"filled"`    // would have got this node's data
	Dropped  uint64            `json:"dropped"`
	Outcomes map[string]uint64 `json:"outcomes"`
}

// perSecond is how many packets are looked at in a second; more could take a router's time.
const perSecond = 50_000

// maxArrivals bounds what is remembered of where packets came from.
const maxArrivals = 4096

// taiOffset is TAI − UTC, which decides no outcome.
const taiOffset = 37 * time.Second

// run is one dry run.
type run struct {
	node     *reference.Node
	isOwn    func(netip.Addr) bool
	hooks    map[model.IfIndex]*Interface
	arrivals map[netip.Addr]model.IfIndex // by source
}

// Watch reads packets for a time, or until the context ends.
func Watch(ctx context.Context, o Options) (Report, error) {
	node, err := reference.NewNode(o.Node)
	if err != nil {
		return Report{}, err
	}
	node.TAIOffset = taiOffset.Nanoseconds()
	r := run{node: node, isOwn: o.IsOwn, hooks: map[model.IfIndex]*Interface{}, arrivals: map[netip.Addr]model.IfIndex{}}
	var report Report
	report.Interfaces = make([]Interface, len(o.Node.Interfaces))
	for i, in := range o.Node.Interfaces {
		report.Interfaces[i] = Interface{Name: in.Name, Ingress: Hook{Outcomes: map[string]uint64{}}, Egress: Hook{Outcomes: map[string]uint64{}}}
		r.hooks[in.Index] = &report.Interfaces[i]
	}
	taps, err := openTaps(o.Node.Interfaces)
	if err != nil {
		return Report{}, err
	}
	defer taps.close()
	if o.Ready != nil {
		o.Ready()
	}
	begun := time.Now()
	err = taps.read(ctx, begun.Add(o.For), r.treat)
	report.Seconds = time.Since(begun).Seconds()
	unread, statsErr := taps.unread()
	report.Unread = unread
	return report, errors.Join(err, statsErr)
}

// treat gives a packet to the node.
func (r *run) treat(p tapped) {
	at := r.hooks[p.index]
	if at == nil {
		return
	}
	frame := reference.Frame{Data: p.data, Link: p.link, Interface: p.index, Time: time.Now().Add(taiOffset).UnixNano(), GSOSize: p.gsoSize}
	packet, isIPv6 := ipv6.Summarize(network(p))
	hook, treat := &at.Ingress, r.node.Ingress
	switch {
	case p.outgoing:
		hook, treat = &at.Egress, r.node.Egress
		if isIPv6 && !packet.Source.IsUnspecified() && !r.isOwn(packet.Source) {
			frame.Ingress = r.arrivals[packet.Source]
			if frame.Ingress == 0 {
				frame.Ingress = elsewhere
			}
		}
	case isIPv6:
		if len(r.arrivals) >= maxArrivals {
			clear(r.arrivals)
		}
		r.arrivals[packet.Source] = p.index
	}
	result := treat(frame)
	hook.count(result, !bytes.Equal(result.Data, p.data))
}

// elsewhere is an interface that the node does not serve.
const elsewhere model.IfIndex = 1<<31 - 1

// network is a packet from its network header on; nil if it is not at the usual place.
func network(p tapped) []byte {
	if p.link == reference.LinkNone {
		return p.data
	}
	const header = 14
	if len(p.data) < header || p.data[12] != 0x86 || p.data[13] != 0xdd {
		return nil
	}
	return p.data[header:]
}

func (h *Hook) count(r reference.Result, changed bool) {
	h.Packets++
	h.Outcomes[r.Outcome.String()]++
	switch o := r.Outcome; {
	case r.Verdict == reference.Drop:
		h.Dropped++
	case o == model.OutcomeEncapSkippedMTU:
		h.TooLarge++
	case o == model.OutcomeEncapInserted, o == model.OutcomeEncapTunneled, o == model.OutcomeEncapUnfilled, o == model.OutcomeEncapOverflow:
		h.Headers++
	case o.Removed(), o == model.OutcomeOptionsRemoved, o == model.OutcomeBoundaryStripped:
		h.Removed++
	case changed:
		h.Filled++
	}
}

// writeOutcomes says what would become of packets, the most frequent first.
func (r Report) writeOutcomes(b *bytes.Buffer) {
	heading := "\nwhat would become of them\n"
	for _, i := range r.Interfaces {
		for _, d := range []struct {
			name     string
			outcomes map[string]uint64
		}{{"ingress", i.Ingress.Outcomes}, {"egress", i.Egress.Outcomes}} {
			names := slices.SortedFunc(maps.Keys(d.outcomes), func(x, y string) int {
				return cmp.Or(cmp.Compare(d.outcomes[y], d.outcomes[x]), cmp.Compare(x, y))
			})
			for _, name := range names {
				fmt.Fprintf(b, "%s%-16s %-8s %9d %s: %s\n", heading, i.Name, d.name, d.outcomes[name], name, meaningOf(name))
				heading = ""
			}
		}
	}
}

// meaningOf is what an outcome says of a packet.
func meaningOf(name string) string {
	for o := range model.NumOutcomes {
		if o.String() == name {
			return o.Meaning()
		}
	}
	return ""
}

// String is the report for people: a line for each interface and direction, then for each outcome there.
func (r Report) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "in %.0fs, this configuration would have done this; nothing was changed\n", r.Seconds)
	fmt.Fprintf(&b, "%-16s %-8s %9s %9s %9s %9s %9s %9s\n", "INTERFACE", "", "PACKETS", "HEADERS", "TOO LARGE", "REMOVED", "FILLED", "DROPPED")
	for _, i := range r.Interfaces {
		for _, d := range []struct {
			name string
			Hook
		}{{"ingress", i.Ingress}, {"egress", i.Egress}} {
			fmt.Fprintf(&b, "%-16s %-8s %9d %9d %9d %9d %9d %9d\n", i.Name, d.name, d.Packets, d.Headers, d.TooLarge, d.Removed, d.Filled, d.Dropped)
		}
	}
	r.writeOutcomes(&b)
	if r.Unread > 0 {
		fmt.Fprintf(&b, "%d packets more came too fast to be looked at\n", r.Unread)
	}
	return b.String()
}
