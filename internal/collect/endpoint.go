// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/address"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ipfix"
)

// The ports that IANA assigns to IPFIX (RFC 7011 §10.2.2, §10.4.1).
const (
	port    = 4739
	portTLS = 4740
)

// Endpoint is where the collector listens.
type Endpoint struct {
	Transport ipfix.Transport
	TLS       bool // over TCP
	Address   netip.AddrPort
}

// ParseEndpoint reads udp://ADDRESS:PORT, tcp://… or tls://…; the default port is
// IANA's. [::] is every address of the machine, IPv4 included.
func ParseEndpoint(s string) (Endpoint, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	e, standard := Endpoint{}, uint16(port)
	switch {
	case ok && scheme == "udp":
		e.Transport = ipfix.UDP
	case ok && scheme == "tcp":
		e.Transport = ipfix.TCP
	case ok && scheme == "tls":
		e.Transport, e.TLS, standard = ipfix.TCP, true, portTLS
	default:
		return e, fmt.Errorf("%q: want udp://ADDRESS:PORT, tcp://ADDRESS:PORT or tls://ADDRESS:PORT", s)
	}
	if err := address.Bracketed(scheme, rest, standard); err != nil {
		return e, err
	}
	at, err := netip.ParseAddrPort(rest)
	if err != nil {
		var alone netip.Addr
		if alone, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]")); err == nil {
			at = netip.AddrPortFrom(alone, standard)
		}
	}
	if err != nil {
		return e, fmt.Errorf(
			"%q: want an address, and a port up to 65535, after %s://, as in %s://[::1]:%d, or [::] for every address of this machine",
			s,
			scheme,
			scheme,
			standard,
		)
	}
	e.Address = at
	return e, nil
}

// String is the endpoint as ParseEndpoint reads it.
func (e Endpoint) String() string {
	scheme := e.Transport.String()
	if e.TLS {
		scheme = "tls"
	}
	return strings.ToLower(scheme) + "://" + e.Address.String()
}

// network is the name by which package net knows the transport.
func (e Endpoint) network() string {
	if e.Transport == ipfix.UDP {
		return "udp"
	}
	return "tcp"
}

// listenFault is the kernel's error for the listening address of a flag or a key, with a cure.
func listenFault(err error, flag string) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return problem.Wrap(err, fmt.Sprintf("set %s to an address and port of this machine", flag))
	}
	cure := "set " + flag + " to an address of this machine, or [::] for all of them"
	switch errno {
	case unix.EADDRINUSE:
		cure = "stop the program that listens there ('ss -lntup' names it), or set " + flag + " to another port"
	case unix.EACCES, unix.EPERM:
		cure = "run it as root, or set " + flag + " to a port from 1024"
	}
	return problem.Wrap(errno, cure)
}

var errNoCertificate error = problem.New("TLS needs a certificate", "use --tls-cert and --tls-key")
