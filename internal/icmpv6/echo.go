// SPDX-License-Identifier: Apache-2.0

package icmpv6

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

// The types of echo messages.
const (
	EchoRequest Type = 128
	EchoReply   Type = 129
)

// echoes is how many requests are sent.
const echoes = 3

// Echoes reports whether a node replies to echo requests without any extension header (RFC 4443 §4.1) within
// a time. zone is the interface of a link-local address; from may be zero: the kernel's choice.
func Echoes(ctx context.Context, to netip.Addr, zone string, from netip.Addr, within time.Duration) (bool, error) {
	l, err := Listen(16, 1<<20, EchoReply)
	if err != nil {
		return false, err
	}
	defer l.Close()
	if err := l.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { l.conn.SetReadDeadline(time.Now()) })
	defer stop()
	request := make([]byte, 16) // header, identifier and sequence, eight octets that come back
	request[0] = byte(EchoRequest)
	rand.Read(request[4:6])
	rand.Read(request[8:])
	sender := l.conn
	if from.IsValid() && !from.IsUnspecified() {
		if sender, err = net.ListenIP("ip6:ipv6-icmp", &net.IPAddr{IP: from.AsSlice(), Zone: from.Zone()}); err != nil {
			return false, fmt.Errorf("send an echo request: %w", err)
		}
		defer sender.Close()
	}
	for range echoes {
		if _, err := sender.WriteToIP(request, &net.IPAddr{IP: to.AsSlice(), Zone: zone}); err != nil {
			return false, fmt.Errorf("send an echo request: %w", err)
		}
	}
	reply := make([]byte, 16)
	for {
		n, sender, err := l.conn.ReadFromIP(reply)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, ctx.Err()
		}
		if err != nil {
			return false, fmt.Errorf("wait for an echo reply: %w", err)
		}
		source, _ := netip.AddrFromSlice(sender.IP)
		if n == len(request) && source == to.WithZone("") && [12]byte(reply[4:]) == [12]byte(request[4:]) {
			return true, nil
		}
	}
}
