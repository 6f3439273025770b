// SPDX-License-Identifier: Apache-2.0

package sender

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/inband"
)

// openPath prepares to send through segments.
func (s *Sender) openPath() error {
	c := &s.config
	if len(c.Segments) == 0 {
		return nil
	}
	from := c.Local
	if !from.IsValid() {
		var err error
		if from, err = sourceTo(c.Segments[0]); err != nil {
			return err
		}
	}
	var label [4]byte
	rand.Read(label[:]) // each session takes one of several equal paths (RFC 6438)
	s.path = inband.Path{Source: from, Segments: c.Segments, Mode: c.Mode, Label: binary.BigEndian.Uint32(label[:]) & 0xfffff}
	var err error
	s.along, err = inband.NewSender()
	return err
}

// sourceTo is the address from which the kernel sends to a segment.
func sourceTo(segment netip.Addr) (netip.Addr, error) {
	conn, err := net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(segment, 1))) // it sends nothing
	if err != nil {
		return netip.Addr{}, problem.Wrap(
			fmt.Errorf("find a source for packets to the first segment: %w", err),
			fmt.Sprintf("check 'ip -6 route get %v', or give --source", segment),
		)
	}
	defer conn.Close()
	a := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	if a.IsLinkLocalUnicast() {
		return a, problem.New(
			fmt.Sprintf("packets to the first segment %v would have the source %v, to which no reply comes from beyond the link", segment, a),
			"give --source",
		)
	}
	return a, nil
}

// transmit sends the prepared packets, and sets Err of those that the kernel refuses.
func (s *Sender) transmit() error {
	if s.along == nil {
		return s.socket.Send(s.outgoing)
	}
	port := s.socket.Local().Port()
	for i := range s.outgoing {
		d := &s.outgoing[i]
		d.Err = s.along.Send(&s.path, port, d.Peer, d.TrafficClass, d.Data)
	}
	return nil
}

// close ends the sockets.
func (s *Sender) close() error {
	err := s.socket.Close()
	if s.along != nil {
		err = errors.Join(err, s.along.Close())
	}
	return err
}
