// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

// Packets that are sent.
const (
	packetPlain  = "plain"
	packetIDs    = "ids"
	packetTimes  = "times"
	packetTunnel = "tunnel"
)

// variant is one treatment of one kind of packet.
type variant struct {
	name      string
	treatment string
	packet    string
	// what a packet looks like at the sink, given what was sent
	arrives func(sent, arrived []byte) error
	// outcomes at n0's ingress hook and n1's egress hook; nil: not looked at
	ingress, egress *ioam.Outcome
	aim             float64
}

func is(o ioam.Outcome) *ioam.Outcome { return &o }

// variants lists what is measured of a size. The first ones, without any
// treatment, are what the others are compared with.
func variants() []variant {
	filled := is(ioam.OutcomeTraceFilled)
	list := []variant{
		{name: "kernel forwarding, no IOAM", treatment: "none", packet: packetPlain, arrives: unchanged},
		{name: "kernel forwarding, trace with ids in the packet, untreated", treatment: "none", packet: packetIDs, arrives: unchanged},
		{name: "kernel forwarding, trace with timestamps in the packet, untreated", treatment: "none", packet: packetTimes, arrives: unchanged},
		{name: "kernel forwarding, tunnelled with a trace, untreated", treatment: "none", packet: packetTunnel, arrives: unchanged},
		{name: "kernel's own IOAM transit, ids", treatment: "kernel", packet: packetIDs, arrives: filledBy(2)},
		{name: "kernel's own IOAM transit, with timestamps", treatment: "kernel", packet: packetTimes, arrives: filledBy(2)},
	}
	for _, hook := range []string{"xdp", "tcx"} {
		t := "transit " + hook
		list = append(list,
			variant{name: "our programs at " + hook + ", plain packets", treatment: t, packet: packetPlain, arrives: unchanged, ingress: is(ioam.OutcomeNoIOAM), egress: is(ioam.OutcomeNoIOAM)},
			variant{name: "our transit at " + hook + ", ids", treatment: t, packet: packetIDs, arrives: filledBy(2), ingress: filled, egress: filled, aim: 0.96},
			variant{name: "our transit at " + hook + ", with timestamps", treatment: t, packet: packetTimes, arrives: filledBy(2), ingress: filled, egress: filled, aim: 0.92},
		)
	}
	return append(list,
		variant{name: "our encapsulation inline, ids", treatment: "inline", packet: packetPlain, arrives: longer(24), egress: is(ioam.OutcomeEncapInserted), aim: 0.91},
		variant{name: "our encapsulation in a tunnel, ids", treatment: "tunnel", packet: packetPlain, arrives: longer(64), egress: is(ioam.OutcomeEncapTunneled), aim: 0.91},
		variant{name: "our encapsulation in a tunnel, with timestamps", treatment: "tunnel with timestamps", packet: packetPlain, arrives: longer(72), egress: is(ioam.OutcomeEncapTunneled), aim: 0.91},
		variant{name: "our decapsulation at xdp, nobody reads the records", treatment: "decapsulate", packet: packetTunnel, arrives: longer(-64), ingress: is(ioam.OutcomeTunnelDecapsulated)},
		variant{name: "our decapsulation at xdp, records read", treatment: "decapsulate, records read", packet: packetTunnel, arrives: longer(-64), ingress: is(ioam.OutcomeTunnelDecapsulated)},
	)
}

// packetOf builds a frame. Plain ones have the length asked for; a trace with
// timestamps or a tunnel may need more.
func packetOf(kind string, length int) []byte {
	switch kind {
	case packetIDs:
		return filling(length, trace(namespace, typeIDs))
	case packetTimes:
		return filling(length, trace(namespace, typeTimes))
	case packetTunnel:
		inner := plain(destination, length)[ethernetHeader:]
		return tunnelled(inner, trace(namespace, typeIDs))
	}
	return plain(destination, length)
}

// filling is a traced frame of the length, without a payload when that is short.
func filling(length int, option []byte) []byte {
	if short := traced(option); length < len(short)+8 {
		return short
	}
	return padded(length, option)
}

func unchanged(sent, arrived []byte) error {
	compared := min(len(sent), len(arrived), rewritten)
	const behindHopLimit = ethernetHeader + 8
	if len(arrived) != len(sent) || !bytes.Equal(arrived[behindHopLimit:compared], sent[behindHopLimit:compared]) {
		return fmt.Errorf("the packet was changed:\n%x became\n%x", sent, arrived)
	}
	return nil
}

// filledBy wants the node's id and both interface ids in the first option.
func filledBy(node byte) func(sent, arrived []byte) error {
	return func(sent, arrived []byte) error {
		const data = atOption + 12
		want := []byte{63, 0, 0, node, 0, 201, 0, 202}
		if len(arrived) != len(sent) || arrived[atRemaining]&0x7f != 0 || !bytes.Equal(arrived[data:data+len(want)], want) {
			return fmt.Errorf("the trace does not hold this node's data:\n%x", arrived)
		}
		return nil
	}
}

func longer(by int) func(sent, arrived []byte) error {
	return func(sent, arrived []byte) error {
		if len(arrived) != len(sent)+by {
			return fmt.Errorf("a packet of %d bytes arrived with %d instead of %d", len(sent), len(arrived), len(sent)+by)
		}
		return nil
	}
}

// sizes of plain frames, in bytes.
var sizes = []int{78, 1236}

// forwardingRun holds what was measured: packets per second by variant, size
// and round.
type forwardingRun struct {
	network *network
	traffic *traffic
	pins    string
	looked  map[string]bool
	rates   map[string]map[int][]float64
	notes   []string
}

func runForwarding(ctx context.Context, o Options) (r Result, err error) {
	run := &forwardingRun{looked: make(map[string]bool), rates: make(map[string]map[int][]float64)}
	directory, err := os.MkdirTemp("", "waymark-bench-")
	if err != nil {
		return Result{}, err
	}
	defer os.Remove(directory)
	pins, release, err := privatePins(directory)
	if err != nil {
		return Result{}, err
	}
	defer release()
	run.pins = pins
	o.progress("raising source, node and sink")
	if run.network, err = raiseNetwork(); err != nil {
		return Result{}, err
	}
	defer run.network.close()
	if run.traffic, err = newTraffic(run.network); err != nil {
		return Result{}, err
	}
	defer run.traffic.close()

	list, order := variants(), treatments()
	if err := run.network.prepareKernelIOAM(); err != nil {
		run.notes = append(run.notes, "The kernel's own IOAM was not measured: "+err.Error())
		order = slices.DeleteFunc(order, func(t treatment) bool { return t.kernel })
		list = slices.DeleteFunc(list, func(v variant) bool { return v.treatment == "kernel" })
	}
	share := o.Duration / time.Duration(o.Rounds*len(list)*len(sizes))
	for round := range o.Rounds {
		o.progress("round %d of %d", round+1, o.Rounds)
		for _, t := range order {
			if err := run.measure(ctx, t, list, share, round%2 == 1); err != nil {
				return Result{}, fmt.Errorf("%s: %w", t.name, err)
			}
		}
		slices.Reverse(order)
	}
	return run.result(list), nil
}

// measure applies a treatment and measures its variants.
func (r *forwardingRun) measure(ctx context.Context, t treatment, list []variant, share time.Duration, backwards bool) (err error) {
	counters, stop, err := r.network.treat(t, r.pins)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var own []variant
	for _, v := range list {
		if v.treatment == t.name {
			own = append(own, v)
		}
	}
	if backwards {
		slices.Reverse(own)
	}
	for _, v := range own {
		for _, size := range sizes {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.one(v, size, share, counters); err != nil {
				return fmt.Errorf("%s, %d bytes: %w", v.name, size, err)
			}
		}
	}
	return nil
}

// one measures one variant once. The first time, it looks at what arrives.
func (r *forwardingRun) one(v variant, size int, share time.Duration, counters func() ([]datapath.Counters, error)) error {
	frame := packetOf(v.packet, size)
	if key := fmt.Sprint(v.name, size); !r.looked[key] {
		arrived, err := r.traffic.look(frame)
		if err != nil {
			return err
		}
		if err := v.arrives(frame, arrived); err != nil {
			return err
		}
		r.looked[key] = true
	}
	before, err := r.outcomes(v, counters)
	if err != nil {
		return err
	}
	pps, packets, err := r.traffic.rate(frame, share)
	if err != nil {
		return err
	}
	after, err := r.outcomes(v, counters)
	if err != nil {
		return err
	}
	for i, hook := range []string{"ingress", "egress"} {
		wanted := []*ioam.Outcome{v.ingress, v.egress}[i]
		if wanted == nil {
			continue
		}
		if n := after[i] - before[i]; n < packets-packets/100 {
			return fmt.Errorf("only %d of %d packets ended as %s at the %s hook", n, packets, *wanted, hook)
		}
	}
	if packets == 0 {
		return errors.New("no packet arrived at the sink")
	}
	if r.rates[v.name] == nil {
		r.rates[v.name] = make(map[int][]float64)
	}
	r.rates[v.name][size] = append(r.rates[v.name][size], pps)
	return nil
}

// outcomes reads how many packets had the variant's outcomes, by hook.
func (r *forwardingRun) outcomes(v variant, counters func() ([]datapath.Counters, error)) (n [2]uint64, err error) {
	if counters == nil {
		return n, nil
	}
	all, err := counters()
	if err != nil {
		return n, err
	}
	for _, c := range all {
		if v.ingress != nil && int(c.Index) == r.network.n0.Attrs().Index {
			n[0] = c.Ingress[*v.ingress]
		}
		if v.egress != nil && int(c.Index) == r.network.n1.Attrs().Index {
			n[1] = c.Egress[*v.egress]
		}
	}
	return n, nil
}

// result compares each variant with the same packets untreated, round by round.
func (r *forwardingRun) result(list []variant) Result {
	out := Result{
		Baseline: "the same packets forwarded by the kernel: no program, ioam6_enabled off, the same sink",
		Axis:     "bytes of a frame without IOAM; packets with a trace have as many where it fits",
		Notes:    r.notes,
	}
	untreated := make(map[string]variant)
	for _, v := range list {
		if v.treatment == "none" {
			untreated[v.packet] = v
		}
	}
	for _, size := range sizes {
		for _, v := range list {
			rates := r.rates[v.name][size]
			base := r.rates[untreated[v.packet].name][size]
			nothing := r.rates[untreated[packetPlain].name][size]
			ratios, plainRatios := make([]float64, len(rates)), make([]float64, len(rates))
			for i := range rates {
				ratios[i], plainRatios[i] = rates[i]/base[i], rates[i]/nothing[i]
			}
			pps := round(median(rates), 0)
			out.Points = append(out.Points, Point{
				Variant: v.name, X: float64(size), PPS: &pps,
				Ratio: round(median(ratios), 4), Spread: spread(ratios, 4),
				PlainRatio: round(median(plainRatios), 4), Reference: round(median(base), 0), Aim: v.aim,
			})
		}
	}
	return out
}
