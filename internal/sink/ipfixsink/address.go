// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/address"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// CollectorAddress is where a collector listens; the zero value is none.
type CollectorAddress struct {
	Transport Transport
	Host      string
	Port      uint16
}

// HostPort is the address without the transport.
func (a CollectorAddress) HostPort() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

func (a CollectorAddress) String() string {
	if a == (CollectorAddress{}) {
		return ""
	}
	return string(a.Transport) + "://" + a.HostPort()
}

// Remote is the collector as any sink's.
func (a CollectorAddress) Remote() sink.Remote {
	protocol := ioam.NextHeaderTCP
	if a.Transport == UDP {
		protocol = ioam.NextHeaderUDP
	}
	return sink.Remote{Host: a.Host, Port: a.Port, Protocol: protocol, Clear: a.Transport != TLS, Text: a.String()}
}

// SourceAddress is an IPv4 or IPv6 address of this node.
type SourceAddress netip.Addr

// ObservationDomain is an Observation Domain ID (RFC 7011 §3.1).
type ObservationDomain uint32

// Enterprise is a private enterprise number for our own elements.
type Enterprise uint32

// MessageSize is a length of messages in octets.
type MessageSize int

// Scalars are the types of the single values of Settings.
var Scalars = yamlfile.Scalars{
	reflect.TypeFor[CollectorAddress](): yamlfile.NewCodec(yamlfile.Text, wantsCollector, parseCollector, CollectorAddress.String),
	reflect.TypeFor[SourceAddress](): yamlfile.NewCodec(yamlfile.Text, "an IPv4 or IPv6 address of this node", parseSource,
		func(a SourceAddress) string { return netip.Addr(a).String() }),
	reflect.TypeFor[ObservationDomain](): yamlfile.Unsigned[ObservationDomain](32),
	reflect.TypeFor[Enterprise](): yamlfile.NewCodec(yamlfile.Number, "a private enterprise number other than 0 and 10383", parseEnterprise,
		func(n Enterprise) string { return strconv.FormatUint(uint64(n), 10) }),
	reflect.TypeFor[MessageSize](): yamlfile.NewCodec(
		yamlfile.Number,
		fmt.Sprintf("a number from %d to 65535", MinMessageSize),
		parseMessageSize,
		func(n MessageSize) string { return strconv.Itoa(int(n)) },
	),
}

const wantsCollector = "an address such as \"udp://[2001:db8::9]:4739\", \"tcp://…\" or \"tls://…\""

// defaultRefresh is less than RFC 6728's 10 minutes, because a restarted collector may
// understand nothing until the next refresh.
const defaultRefresh = time.Minute

// standardPorts are IANA's (RFC 7011 §10).
var standardPorts = map[Transport]uint16{UDP: 4739, TCP: 4739, TLS: 4740}

func parseCollector(s string) (CollectorAddress, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	a := CollectorAddress{Transport: Transport(scheme), Port: standardPorts[Transport(scheme)]}
	switch {
	case a.Port == 0 && strings.Contains(s, "://"):
		return CollectorAddress{}, fmt.Errorf("%q begins with a transport that is neither udp, tcp nor tls", s)
	case a.Port == 0:
		return CollectorAddress{}, fmt.Errorf("%q does not begin with a transport, udp://, tcp:// or tls://", s)
	case rest == "":
		return CollectorAddress{}, fmt.Errorf("%q has no host", s)
	}
	if err := address.Bracketed(scheme, rest, a.Port); err != nil {
		return CollectorAddress{}, err
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil { // probably no port
		host, port = rest, strconv.Itoa(int(a.Port))
		if inner, ok := strings.CutPrefix(host, "["); ok {
			host, ok = strings.CutSuffix(inner, "]")
			if !ok {
				return CollectorAddress{}, fmt.Errorf("%q is not [ADDRESS] or [ADDRESS]:PORT", rest)
			}
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return CollectorAddress{}, fmt.Errorf("%q is not a port", port)
	}
	a.Host, a.Port = host, uint16(n)
	if addr, err := netip.ParseAddr(host); err == nil {
		a.Host = addr.String()
		if addr.IsUnspecified() || addr.IsMulticast() && a.Transport != UDP {
			return CollectorAddress{}, fmt.Errorf("%s is not the address of a host", host)
		}
		if err := address.Zone(addr); err != nil {
			return CollectorAddress{}, err
		}
	} else if !validHostName(host) {
		return CollectorAddress{}, fmt.Errorf("%q is neither an address nor a name", host)
	}
	return a, nil
}

// validHostName is the rule of RFC 1123 §2.1, without the lengths.
func validHostName(s string) bool {
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	return !slices.ContainsFunc(labels, func(l string) bool {
		return l == "" || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		})
	})
}

func parseSource(s string) (SourceAddress, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.IsUnspecified() || a.Is4In6() {
		return SourceAddress{}, fmt.Errorf("%q is not an address of a node", s)
	}
	return SourceAddress(a), address.Check(a, address.Node, address.Zone)
}

func parseEnterprise(s string) (Enterprise, error) {
	v, err := yamlfile.ParseUint(s, 32)
	if n := ipfix.Enterprise(v); err == nil && (n == ipfix.EnterpriseIANA || n == ipfix.EnterpriseIOAM) {
		return 0, fmt.Errorf("%s already defines elements", s)
	}
	return Enterprise(v), err
}

func parseMessageSize(s string) (MessageSize, error) {
	v, err := yamlfile.ParseUint(s, 16)
	if err == nil && v < MinMessageSize {
		return 0, fmt.Errorf("%s is too small", s)
	}
	return MessageSize(v), err
}
