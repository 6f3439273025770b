// SPDX-License-Identifier: Apache-2.0

// Package reflector is a STAMP Session-Reflector (RFC 8762 §4.3, RFC 8972, RFC 9503,
// RFC 9534). It answers a packet with as many octets as it got, to where it came from,
// so it cannot be used to amplify. Only through SRv6 segments is a reply longer on the
// wire.
package reflector

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/stamp/admit"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

const (
	batch   = 64   // packets of one system call
	longest = 9000 // octets of a packet: a jumbo frame
)

// Config configures a reflector.
type Config struct {
	Local          netip.AddrPort
	Format         stamp.TimestampFormat
	Key            []byte         // of the HMACs; none: unauthenticated
	KeyForTLVs     bool           // the mode is unauthenticated, the key is for HMAC TLVs
	Allowed        []netip.Prefix // of sources; none: all
	SSIDs          []stamp.SSID   // that are answered; none: all
	Rate           int            // the most packets a second; 0: no limit
	Stateful       bool
	MaxSessions    int              // of a stateful reflector
	SessionTimeout time.Duration    // after which an idle session ends
	DSCPs          uint64           // bit n: senders may ask for replies with DSCP n
	ReturnSegments bool             // replies go through the SRv6 segments that senders ask for
	MicroSession   uint16           // this reflector's member link; 0: none
	Source         stamp.SyncSource // what synchronizes this machine's clock, while anything does; 0: not known

	// Measured gives the counters of the measured flow for a Direct Measurement TLV
	// (RFC 8972 §4.5). Nil, or false: the packets of the session, if the reflector is
	// stateful.
	Measured func(peer netip.AddrPort, ssid stamp.SSID) (received, transmitted uint32, ok bool)
	// Extension processes a TLV of a type that the reflector does not know, in place.
	// False: it does not know it either.
	Extension func(stamp.TLV) bool
}

// mode is the form of base packets.
func (c *Config) mode() stamp.Mode {
	if len(c.Key) > 0 && !c.KeyForTLVs {
		return stamp.Authenticated
	}
	return stamp.Unauthenticated
}

// Reflector reflects. Its counters may be read at any time.
type Reflector struct {
	config   Config
	mode     stamp.Mode
	auth     *stamp.Authenticator // nil without a key
	clock    *clock.Clock
	now      func() clock.Instant
	synced   func() bool // whether anything synchronizes the clock
	sessions sessions
	limit    admit.Bucket
	local    localAddresses
	server   udp.Server
	counters counters
	states   [batch]reply // of the datagrams of one batch
	out      []udp.Datagram
}

// reply is what is known about the reply to a datagram.
type reply struct {
	packet  stamp.ReflectorPacket
	session *session // nil if stateless
}

// New makes a reflector.
func New(c Config) *Reflector {
	r := &Reflector{config: c, mode: c.mode(), clock: clock.New(c.Format), out: make([]udp.Datagram, 0, batch)}
	r.now, r.synced = r.clock.Now, r.clock.Synchronized
	if len(c.Key) > 0 {
		r.auth = stamp.NewAuthenticator(c.Key)
	}
	r.sessions = newSessions(c.MaxSessions, c.SessionTimeout)
	r.limit.Rate = c.Rate
	return r
}

// Open opens the socket.
func (r *Reflector) Open() error {
	err := r.server.Open(udp.Config{Local: r.config.Local, Batch: batch, Size: longest})
	if err != nil || !r.config.ReturnSegments {
		return err
	}
	if err := r.server.Socket().CheckSegments(); err != nil {
		return errors.Join(err, r.server.Close())
	}
	return nil
}

// Local is the address and port at which the reflector receives.
func (r *Reflector) Local() netip.AddrPort { return r.server.Local() }

// Counts are the counters.
func (r *Reflector) Counts() Counts {
	c := r.counters.counts()
	c.SocketDropped = r.server.Dropped()
	return c
}

// Close closes the socket of a reflector that does not run.
func (r *Reflector) Close() error { return r.server.Close() }

// Run reflects until the context ends, and closes the socket.
func (r *Reflector) Run(ctx context.Context) error {
	return r.server.Serve(ctx, r.serve)
}

// serve answers a batch.
func (r *Reflector) serve(list []udp.Datagram) error {
	now := r.now()
	r.clock.Look(now)
	r.out = r.out[:0]
	for i := range list {
		if r.awaitsReply(&list[i]) {
			if err := r.flush(); err != nil {
				return err
			}
		}
		state := &r.states[len(r.out)]
		*state = reply{}
		if outcome := r.prepare(&list[i], state, now); outcome != Reflected {
			r.counters.outcomes[outcome].Add(1)
			continue
		}
		r.out = append(r.out, list[i])
	}
	return r.flush()
}

// awaitsReply reports whether a packet asks when the reply before it was sent, while a
// reply to the same peer is prepared and not yet sent (RFC 8972 §4.7: "the previous
// reflected packet").
func (r *Reflector) awaitsReply(d *udp.Datagram) bool {
	if !r.config.Stateful || len(d.Data) <= r.mode.BaseLen() {
		return false
	}
	same := func(o udp.Datagram) bool { return o.Peer == d.Peer && o.Scope == d.Scope }
	if !slices.ContainsFunc(r.out, same) {
		return false
	}
	for t, err := range stamp.TLVs(d.Data[r.mode.BaseLen():]) {
		if err == nil && t.Type() == stamp.TypeFollowUpTelemetry {
			return true
		}
	}
	return false
}

// flush sends the replies that are prepared.
func (r *Reflector) flush() error {
	if len(r.out) == 0 {
		return nil
	}
	for i := range r.out {
		r.finish(&r.out[i], &r.states[i])
	}
	// Before the call, because replies may arrive before it returns. It is still later
	// than the timestamps in all replies of a batch but the last.
	sent := r.now().Wall
	if err := r.server.Socket().Send(r.out); err != nil {
		return err
	}
	for i := range r.out {
		r.account(&r.out[i], &r.states[i], sent)
	}
	for i := range slices.Backward(r.out) {
		r.takeBack(&r.out[i], &r.states[i])
	}
	r.out = r.out[:0]
	return nil
}

// account counts a reply that was sent, or was not.
func (r *Reflector) account(d *udp.Datagram, state *reply, sent int64) {
	if d.Err != nil {
		r.counters.outcomes[SendFailed].Add(1)
		return
	}
	r.counters.outcomes[Reflected].Add(1)
	r.counters.octets.Add(uint64(len(d.Data)))
	if s := state.session; s != nil {
		s.followUp, s.followed, s.hasSent = state.packet.Sequence, sent, true
	}
}

// takeBack gives the number of a reply that the kernel refused to send to the next one of
// its session, if no later one left: numbers and the counter of a Direct Measurement are
// of "transmitted" packets (RFC 8762 §4.3.1, RFC 8972 §4.5).
func (r *Reflector) takeBack(d *udp.Datagram, state *reply) {
	switch s := state.session; {
	case d.Err == nil || s == nil:
	case s.next == state.packet.Sequence+1:
		s.next--
	default:
		s.unsent++
	}
}

// prepare turns a packet into its reply, in place, besides the base packet.
func (r *Reflector) prepare(d *udp.Datagram, state *reply, now clock.Instant) Outcome {
	if outcome := r.admit(d, now.Wall); outcome != Reflected {
		return outcome
	}
	if r.mode == stamp.Authenticated && !r.auth.Verify(d.Data) {
		return WrongHMAC
	}
	sender, err := stamp.DecodeSender(d.Data, r.mode)
	switch {
	case err != nil:
		return Truncated
	case len(r.config.SSIDs) > 0 && !slices.Contains(r.config.SSIDs, sender.SSID):
		return UnknownSession
	case !r.limit.Allow(now.Steady): // after the HMAC: packets without the key use up no rate
		return RateLimited
	}
	tlvs := d.Data[r.mode.BaseLen():]
	integrity, intact := r.verify(sender.Sequence, tlvs)
	if intact && r.isOfOtherLink(tlvs) { // before a session begins
		return WrongMicro
	}
	if r.config.Stateful {
		if state.session = r.session(d, sender, now.Steady); state.session == nil {
			return SessionsFull
		}
	}
	state.packet = r.answer(d, sender, state.session, now.Wall)
	// The reply has the class of the packet, without its congestion marks.
	way := wayBack{class: d.TrafficClass &^ 3, source: d.Local, link: d.Interface}
	// Routing decides, unless an address is valid on one link only: the kernel then needs
	// the link, be it of the source or of the destination.
	switch d.Interface = 0; {
	case d.Peer.Addr().IsLinkLocalUnicast():
		d.Interface = d.Scope
	case d.Local.IsLinkLocalUnicast():
		d.Interface = way.link
	}
	if !intact {
		r.refuse(tlvs)
	} else if outcome := r.answerTLVs(d, tlvs, sender, integrity, state, &way); outcome != Reflected {
		return outcome
	}
	d.TrafficClass, d.Local, d.Segments = way.class, way.source, way.segments
	if way.sameLink {
		d.Interface = way.link
	}
	if state.session != nil {
		state.session.next++
	}
	return Reflected
}

// finish writes the base packet, when all packets of the batch are prepared: what takes
// time after the timestamp is measured as part of the way.
func (r *Reflector) finish(d *udp.Datagram, state *reply) {
	state.packet.Timestamp = r.clock.Timestamp(r.now().Wall)
	state.packet.Put(d.Data, r.mode)
	if r.mode == stamp.Authenticated {
		r.auth.Sign(d.Data)
	}
}

// answer is the base packet of the reply (RFC 8762 §4.3.1).
func (r *Reflector) answer(d *udp.Datagram, sender stamp.SenderPacket, s *session, now int64) stamp.ReflectorPacket {
	received := d.Received
	if received == 0 {
		received = now
	}
	p := stamp.ReflectorPacket{
		Sequence: sender.Sequence, Error: r.clock.Estimate(), SSID: sender.SSID,
		Received: r.clock.Timestamp(received), Sender: sender, SenderTTL: d.HopLimit,
	}
	if s != nil {
		p.Sequence = s.next
	}
	return p
}

// admit decides what needs no look into the packet.
func (r *Reflector) admit(d *udp.Datagram, now int64) Outcome {
	switch admit.Check(d, r.config.Allowed) {
	case admit.NotAllowed:
		return NotAllowed
	case admit.Unanswerable:
		return Unanswerable
	case admit.Oversized:
		return Oversized
	}
	switch {
	case len(d.Data) < r.mode.BaseLen():
		// RFC 8762 §4.6 would answer with the whole base packet, and so amplify.
		return Truncated
	case r.looped(d.Data, now):
		return Looped
	}
	return Reflected
}

// loopSeconds is how old a timestamp of ours may be that comes back as the sender's.
const loopSeconds = 60

// looped reports whether a packet is a reply that another reflector sent to this one.
// With a forged source, two reflectors would answer each other for ever. A sender's
// packet has zeros where a reply has its Receive Timestamp; where a sender puts padding
// there, as those of TWAMP Light do, it also fills what must be zero in a reply.
// A reflector of TWAMP fills that with our own octets (RFC 5357 §4.2.1), but returns the
// time at which we sent.
func (r *Reflector) looped(b []byte, now int64) bool {
	p, err := stamp.DecodeReflector(b, r.mode)
	if err != nil || p.Received == 0 {
		return false
	}
	if age := uint32(r.clock.Timestamp(now)>>32) - uint32(p.Sender.Timestamp>>32); age <= loopSeconds {
		return true
	}
	var again [112]byte
	p.Put(again[:], r.mode)
	length := r.mode.BaseLen()
	if r.mode == stamp.Authenticated {
		length -= stamp.HMACLen
	}
	return bytes.Equal(b[:length], again[:length])
}
