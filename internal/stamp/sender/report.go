// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/delay"
	"github.com/waymark-net/waymark/internal/stamp/measure"
	"github.com/waymark-net/waymark/stamp"
)

// Report is the result of a session. Null is what is not known.
type Report struct {
	Kind          string       `json:"kind"` // always "stamp"
	Reflector     string       `json:"reflector"`
	Segments      []netip.Addr `json:"segments"` // that packets were sent through
	Mode          *string      `json:"mode"`     // how they had the segments
	SSID          uint16       `json:"ssid"`
	Authenticated bool         `json:"authenticated"`
	Size          int          `json:"size"`
	measure.Result
	SendFailed    uint64            `json:"send_failed"`
	ICMPErrors    map[string]uint64 `json:"icmp_errors"`     // about packets, by name
	ICMPErrorFrom *netip.Addr       `json:"icmp_error_from"` // the node that sent the last one
	Refused       map[string]uint64 `json:"refused"`         // datagrams and TLVs that were not used, by cause
	HopsForward   *int              `json:"hops_forward"`
	HopsBackward  *int              `json:"hops_backward"`
	SenderClock   ClockQuality      `json:"sender_clock"`
	ReflectorTime *ClockQuality     `json:"reflector_clock"`
	Answers       *Answers          `json:"answers"` // of the last reply
}

// ClockQuality is an error estimate (RFC 8762 §4.2.1).
type ClockQuality struct {
	Synchronized bool   `json:"synchronized"`
	Format       string `json:"format"`
	Scale        uint8  `json:"scale"`
	Multiplier   uint8  `json:"multiplier"`
	Error        *int64 `json:"error_ns"` // null: the estimate is invalid
}

func quality(e stamp.ErrorEstimate) ClockQuality {
	q := ClockQuality{Synchronized: e.Synchronized(), Format: e.Format().String(), Scale: e.Scale(), Multiplier: e.Multiplier()}
	if d, ok := e.Duration(); ok {
		ns := int64(d)
		q.Error = &ns
	}
	return q
}

// Report is the result until now.
func (s *Sender) Report() *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Report{
		Kind: "stamp", Reflector: s.config.Remote.String(), SSID: uint16(s.config.SSID), Authenticated: s.mode == stamp.Authenticated,
		Size: len(s.packets[0]), Result: s.session.Result(s.now().Steady), SendFailed: s.failed,
		Segments: []netip.Addr{}, ICMPErrors: maps.Clone(s.replyFacts.errors), Refused: make(map[string]uint64, numRefusals),
		SenderClock: quality(s.clock.Estimate()),
	}
	for i, n := range s.replyFacts.refused {
		r.Refused[refusalNames[i]] = n
	}
	if len(s.config.Segments) > 0 {
		mode := s.config.Mode.String()
		r.Segments, r.Mode = s.config.Segments, &mode
	}
	if from := s.replyFacts.lastError.From; from.IsValid() {
		r.ICMPErrorFrom = &from
	}
	if h := &s.replyFacts; h.any {
		clock := quality(h.estimate)
		answers := h.answers
		r.ReflectorTime, r.Answers = &clock, &answers
		r.HopsForward, r.HopsBackward = hops(h.hopsTo), hops(h.hopsFrom)
	}
	return r
}

// hops is the number of hops of a packet that began with hop limit 255; nil for 0,
// which nodes send that do not know it.
func hops(limit uint8) *int {
	if limit == 0 {
		return nil
	}
	n := 255 - int(limit)
	return &n
}

// Failure is the last reason why the kernel did not send a packet; nil if it sent all.
func (s *Sender) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Text is the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d sent, %d received, %d lost (%s)", r.Reflector, r.Sent, r.Received, r.Lost, share(r.Lost, r.Sent))
	if r.LostForward != nil {
		fmt.Fprintf(&b, ": %d forward, %d backward, %d in an unknown direction", *r.LostForward, *r.LostBackward, r.LostUndirected)
	}
	b.WriteString("\n")
	if r.Mode != nil {
		fmt.Fprintf(&b, "  through %s (%s)\n", joined(r.Segments), *r.Mode)
	}
	if r.Waiting+r.Late+r.Duplicates+r.Reordered+r.SendFailed > 0 {
		fmt.Fprintf(
			&b,
			"  %d late, %d duplicates, %d reordered, %d waiting, %d not sent\n",
			r.Late,
			r.Duplicates,
			r.Reordered,
			r.Waiting,
			r.SendFailed,
		)
	}
	if r.ReflectorRestarts != nil && *r.ReflectorRestarts > 0 {
		fmt.Fprintf(&b, "  %d reflector restarts: its numbers began anew; losses around one have no direction\n", *r.ReflectorRestarts)
	}
	for i, name := range refusalNames {
		if n := r.Refused[refusalNames[i]]; n > 0 {
			fmt.Fprintf(&b, "  %d %s\n", n, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.ICMPErrors)) {
		fmt.Fprintf(&b, "  %d ICMPv6 errors: %s\n", r.ICMPErrors[name], name)
	}
	if r.Foreign > 0 {
		fmt.Fprintf(&b, "  %d foreign: no packet of this session has their number\n", r.Foreign)
	}
	if r.Impossible > 0 {
		fmt.Fprintf(
			&b,
			"  %d time_impossible: the reflector held them for a negative time, or longer than the round trip; its clock is set or wrong\n",
			r.Impossible,
		)
	}
	r.writeDelays(&b)
	if r.ReflectorTime != nil {
		fmt.Fprintf(&b, "clocks: sender %s, reflector %s\n", r.SenderClock, *r.ReflectorTime)
	}
	if r.HopsForward != nil && r.HopsBackward != nil {
		fmt.Fprintf(&b, "hops: %d forward, %d backward\n", *r.HopsForward, *r.HopsBackward)
	}
	if r.Answers != nil {
		r.Answers.write(&b)
	}
	return b.String()
}

func joined(list []netip.Addr) string {
	var text []string
	for _, a := range list {
		text = append(text, a.String())
	}
	return strings.Join(text, ", ")
}

func share(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(whole))
}

func (r *Report) writeDelays(b *strings.Builder) {
	rows := []struct {
		name  string
		delay *delay.Summary
	}{{"round trip", r.RoundTrip}, {"two-way", r.TwoWay}, {"at reflector", r.Residence}, {"forward", r.Forward}, {"backward", r.Backward}}
	if r.RoundTrip == nil {
		return
	}
	fmt.Fprintf(b, "%-12s %9s %9s %9s %9s %9s %9s %9s\n", "delay", "min", "mean", "median", "p95", "p99", "max", "jitter")
	for _, row := range rows {
		d := row.delay
		if d == nil {
			continue
		}
		fmt.Fprintf(b, "%-12s", row.name)
		for _, v := range []*int64{&d.Min, &d.Mean, &d.Median, &d.P95, &d.P99, &d.Max, d.Jitter} {
			text := "-"
			if v != nil {
				text = short(*v)
			}
			fmt.Fprintf(b, " %9s", text)
		}
		b.WriteString("\n")
	}
}

// short is a time with about four digits.
func short(ns int64) string {
	d := time.Duration(ns)
	switch size := d.Abs(); {
	case size < 10*time.Microsecond:
		return fmt.Sprintf("%.2fµs", float64(ns)/1e3)
	case size < time.Millisecond:
		return fmt.Sprintf("%.1fµs", float64(ns)/1e3)
	case size < time.Second:
		return fmt.Sprintf("%.3fms", float64(ns)/1e6)
	}
	return fmt.Sprintf("%.3fs", float64(ns)/1e9)
}

// String says how good a clock is.
func (q ClockQuality) String() string {
	state := "not synchronized"
	if q.Synchronized {
		state = "synchronized"
	}
	if q.Error == nil {
		return state + " (error unknown)"
	}
	return fmt.Sprintf("%s (error up to %v)", state, time.Duration(*q.Error).Round(time.Microsecond))
}

func (a *Answers) write(b *strings.Builder) {
	if l := a.Location; l != nil {
		fmt.Fprintf(b, "location: from [%s]:%d to [%s]:%d\n", stringOrUnknown(l.Source), l.SourcePort, stringOrUnknown(l.Destination),
			l.DestinationPort)
	}
	if i := a.Timestamps; i != nil {
		fmt.Fprintf(b, "timestamps: in %s by %s, out %s by %s\n", i.SourceIn, i.MethodIn, i.SourceOut, i.MethodOut)
	}
	if c := a.ClassOfService; c != nil {
		fmt.Fprintf(
			b,
			"class of service: forward dscp %d ecn %d, backward dscp %d ecn %d, wanted class %s\n",
			c.Forward,
			c.ForwardECN,
			c.Backward,
			c.BackwardECN,
			yesNo(&c.Permitted, "used", "not permitted"),
		)
	}
	if m := a.Direct; m != nil {
		fmt.Fprintf(
			b,
			"direct measurement: sender transmitted %d, reflector received %d, transmitted %d\n",
			m.SenderTransmitted,
			m.ReflectorReceived,
			m.ReflectorTransmitted,
		)
	}
	if r := a.AccessReport; r != nil {
		fmt.Fprintf(b, "access report: access %d, return code %d\n", r.AccessID, r.ReturnCode)
	}
	if f := a.FollowUp; f != nil && f.Time != nil {
		fmt.Fprintf(b, "follow-up: reply %d was sent at %s by %s\n", f.Sequence, time.Unix(0, *f.Time).UTC().Format(time.RFC3339Nano), f.Method)
	}
	if m := a.MicroSession; m != nil {
		fmt.Fprintf(b, "micro-session: sender %d, reflector %d\n", m.Sender, m.Reflector)
	}
	if a.DestinationNode != nil {
		fmt.Fprintf(b, "destination node: %s\n", yesNo(a.DestinationNode, "the reflector has the address", "another node"))
	}
	if a.ReturnPath != nil {
		fmt.Fprintf(b, "return path: %s\n", yesNo(a.ReturnPath, "used", "not used"))
	}
	if len(a.Unrecognized) > 0 {
		fmt.Fprintf(b, "not processed by the reflector: %s\n", strings.Join(a.Unrecognized, ", "))
	}
}

func stringOrUnknown[T fmt.Stringer](v *T) string {
	if v == nil {
		return "?"
	}
	return (*v).String()
}

func yesNo(v *bool, yes, no string) string {
	if *v {
		return yes
	}
	return no
}
