// SPDX-License-Identifier: Apache-2.0

// Package sender sends postcards as the nodes of a path would, for benchmarks and tests of collectors.
package sender

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/ipfix"
)

// Nodes is how many nodes report each packet of a Sender.
const Nodes = 5

// Sender sends postcards over UDP, as the nodes of one path would: each packet has one of each node.
type Sender struct {
	conn     net.Conn
	registry *ipfix.Registry
	template *ipfix.Template
	encoders [Nodes]*ipfix.Encoder
	fresh    bool // templates were not sent yet
	brief    bool // postcards have no flow label
	buffer   []byte
	record   []byte
	next     uint32 // number of the next packet

	Flows   uint32                               // packets belong to them in turn
	Ahead   [Nodes]time.Duration                 // of the nodes' clocks
	Once    bool                                 // templates are in the first messages only
	Deliver func(node int, message []byte) error // instead of sending it; nil: it is sent
}

// together is how many packets a message has, at most what fits a datagram of 1400 octets.
const together = 9

// Source is the address of a flow's source: in 2001:db8:SITE::/48, a site for a hundred flows.
func Source(flow int) netip.Addr { return Address(uint16(flow/100), uint32(flow)) }

// Destination is the address of a flow's destination: that of site 0x8000 + flow/100.
func Destination(flow int) netip.Addr { return Address(uint16(0x8000+flow/100), uint32(flow)) }

// Address is that of a host at a site.
func Address(site uint16, host uint32) netip.Addr {
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint16(b[4:], site)
	binary.BigEndian.PutUint32(b[12:], host)
	return netip.AddrFrom16(b)
}

// New makes a sender to an address.
func New(to string) (*Sender, error) {
	conn, err := net.Dial("udp", to)
	if err != nil {
		return nil, err
	}
	s := &Sender{conn: conn, Flows: 1000}
	if s.registry, err = ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(ipfix.EnterpriseExample)); err != nil {
		return nil, err
	}
	return s, s.Restart(false)
}

// Restart begins again, as a node does that restarts: with the first Sequence Number, and with templates, which have
// the same number as before. brief: they have no flow label.
func (s *Sender) Restart(brief bool) error {
	names := []string{"observationTimeNanoseconds", "sourceIPv6Address", "destinationIPv6Address", "protocolIdentifier", "flowLabelIPv6",
		"sourceTransportPort", "destinationTransportPort", "ipTotalLength[4]", "ingressInterface", "egressInterface", "ioamNodeRole",
		"ioamOptionType", "ioamNamespaceId", "ioamTraceType",
		"ioamExtensionFlags", "ioamDexFlowId", "ioamDexSequenceNumber", "ioamTimestampNanoseconds", "ioamHopLimit", "ioamNodeId", "ioamTransitDelayNanoseconds"}
	if brief {
		names = append(names[:4], names[5:]...)
	}
	s.fresh, s.brief = true, brief
	var err error
	if s.template, err = s.registry.Template(256, names...); err != nil {
		return err
	}
	for i := range s.encoders {
		if s.encoders[i], err = ipfix.NewEncoder(ipfix.UDP, uint32(i+1), 1400); err != nil {
			return err
		}
		if err := s.encoders[i].Define(s.template); err != nil {
			return err
		}
	}
	return nil
}

// Skip leaves out the numbers of so many packets.
func (s *Sender) Skip(packets uint32) { s.next += packets }

// Send sends the postcards of a number of packets now, at most together.
func (s *Sender) Send(packets int) error {
	sent := time.Now()
	templates := s.fresh || !s.Once && s.next%1024 < uint32(packets)
	s.fresh = false
	for node, e := range s.encoders {
		now := sent.Add(s.Ahead[node])
		e.Start(s.buffer[:0])
		if templates {
			if err := e.AddTemplates(); err != nil {
				return err
			}
		}
		for i := range packets {
			number := s.next + uint32(i)
			record, err := s.postcard(node, number, now)
			if err != nil {
				return err
			}
			if err := e.Add(s.template, record); err != nil {
				return err
			}
		}
		s.buffer = e.Finish(now)
		if err := s.deliver(node); err != nil {
			return err
		}
	}
	s.next += uint32(packets)
	return nil
}

func (s *Sender) deliver(node int) error {
	if s.Deliver != nil {
		return s.Deliver(node, s.buffer)
	}
	return s.Write(s.buffer)
}

// Write sends a message as it is.
func (s *Sender) Write(message []byte) error {
	_, err := s.conn.Write(message)
	return err
}

func (s *Sender) postcard(node int, number uint32, now time.Time) ([]byte, error) {
	flow := number % s.Flows
	role := uint64(2)
	switch node {
	case 0:
		role = 1
	case Nodes - 1:
		role = 3
	}
	// Delays are spread over four powers of two.
	held := uint64(5_000 + (number*2654435761>>12+uint32(node)*7919)%75_000)
	at := now.Add(time.Duration(node) * 150 * time.Microsecond).Add(time.Duration(held) * time.Nanosecond)
	w := s.template.Record(s.record[:0])
	w.Time(at)
	w.Addr(Source(int(flow)))
	w.Addr(Destination(int(flow)))
	w.Uint(17)
	if !s.brief {
		w.Uint(0)
	}
	for _, v := range []uint64{4242, 443, 1200, 2, 3, role, 4, 123, 0xf80000, 0xc0, uint64(flow + 1), uint64(number/s.Flows + 1)} {
		w.Uint(v)
	}
	w.Time(at)
	w.Uint(uint64(64 - node))
	w.Uint(uint64(node + 1))
	w.Uint(held)
	record, err := w.End()
	s.record = record
	return record, err
}

// Rate sends a number of packets each second, until the context ends, and returns how many were sent.
func (s *Sender) Rate(ctx context.Context, rate int) (sent int, err error) {
	begun := time.Now()
	for ctx.Err() == nil {
		due := int(time.Since(begun).Seconds() * float64(rate))
		if due-sent < together {
			time.Sleep(500 * time.Microsecond)
			continue
		}
		if err := s.Send(together); err != nil {
			return sent, err
		}
		sent += together
	}
	return sent, nil
}

// Close ends it.
func (s *Sender) Close() error { return s.conn.Close() }
