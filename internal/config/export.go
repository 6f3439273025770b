// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// Export is one receiver of records.
type Export struct {
	Kind              ExportKind         `key:"kind" required:"true" doc:"jsonl writes one JSON object per line. ipfix sends IPFIX (RFC 7011) to a collector."`
	Path              string             `key:"path" absent:"\"-\"" doc:"Of jsonl: the file to append to; - is standard output. A relative path starts from the directory in which the agent was started. When the file is renamed or removed, the next record makes it anew, so rotation needs no signal."`
	Address           CollectorAddress   `key:"address" absent:"required with ipfix" doc:"Of ipfix: the collector, as udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT. Without a port it is IANA's: 4739, with TLS 4740. A name is looked up for each session."`
	Source            SourceAddress      `key:"source" absent:"the kernel's choice" doc:"Of ipfix: the source address, IPv4 or IPv6 like the collector's."`
	ObservationDomain *ObservationDomain `key:"observation-domain" absent:"node.id" doc:"Of ipfix: the Observation Domain ID; unique among the exporters of a collector."`
	Enterprise        *Enterprise        `key:"enterprise" absent:"32473" doc:"Of ipfix: the private enterprise number under which Waymark's own elements stand: yours. The default is the one for documentation (RFC 5612); the collector must use the same."`
	MessageSize       *MessageSize       `key:"message-size" absent:"what the path MTU leaves, at most 8952; 16384 over TCP" doc:"Of ipfix: octets of a message at most. Over UDP a smaller path MTU decides."`
	Refresh           *Period            `key:"refresh" absent:"1m" doc:"Of ipfix: how often names and statistics are sent and, over UDP, all templates (RFC 7011 §8.4): a collector that was started later understands nothing before."`
	TLS               *ExportTLS         `key:"tls" absent:"no certificate of ours, the system's authorities" doc:"Of ipfix with tls://: credentials, each in a PEM file that is read anew for each connection. A relative path starts from the directory in which the agent was started."`
}

// ExportTLS is what a session over TLS needs.
type ExportTLS struct {
	Certificate string `key:"certificate" absent:"none" doc:"Our certificate, with what vouches for it."`
	Key         string `key:"key" absent:"none" doc:"The private key of certificate."`
	CA          string `key:"ca" absent:"the system's authorities" doc:"The authorities that may vouch for the collector."`
	ServerName  string `key:"server-name" absent:"the host of address" doc:"The name or address that the collector's certificate must have."`
}

// ExportKind is the format of exported records: jsonl or ipfix.
type ExportKind string

// The kinds of export.
const (
	ExportJSONL ExportKind = "jsonl"
	ExportIPFIX ExportKind = "ipfix"
)

// CollectorAddress is where a collector listens; the zero value is none.
type CollectorAddress struct {
	Transport export.Transport
	Host      string
	Port      uint16
}

// HostPort is the address without the transport.
func (a CollectorAddress) HostPort() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// SourceAddress is an address of this node, of IPv4 or IPv6.
type SourceAddress netip.Addr

// ObservationDomain is an Observation Domain ID (RFC 7011 §3.1).
type ObservationDomain uint32

// Enterprise is a private enterprise number for our own elements.
type Enterprise uint32

// MessageSize is a length of messages in octets.
type MessageSize int

// Period is a time of whole seconds.
type Period time.Duration

// defaultRefresh is less than RFC 6728's 10 minutes: it is how long a collector
// that was restarted may understand nothing.
const defaultRefresh = time.Minute

// File is the path of a jsonl exporter, "-" for standard output.
func (e Export) File() string {
	if e.Path == "" {
		return "-"
	}
	return e.Path
}

// EnterpriseNumber is that of our own elements.
func (e Export) EnterpriseNumber() ipfix.Enterprise {
	if e.Enterprise == nil {
		return ipfix.EnterpriseExample
	}
	return ipfix.Enterprise(*e.Enterprise)
}

// Collector is what an ipfix exporter is to do, at a node of that id.
func (e Export) Collector(node ioam.NodeID) export.CollectorConfig {
	c := export.CollectorConfig{
		Transport: e.Address.Transport, Address: e.Address.HostPort(), Source: netip.Addr(e.Source),
		Domain: uint32(node), Refresh: defaultRefresh,
	}
	if e.ObservationDomain != nil {
		c.Domain = uint32(*e.ObservationDomain)
	}
	if e.MessageSize != nil {
		c.MessageSize = int(*e.MessageSize)
	}
	if e.Refresh != nil {
		c.Refresh = time.Duration(*e.Refresh)
	}
	if e.TLS != nil {
		c.Files = export.TLSFiles(*e.TLS)
	}
	return c
}

// setDefaults writes out what the file leaves to the program, as far as one is
// known without a host: the Observation Domain ID may be the kernel's node id.
func (e *Export) setDefaults(node *ioam.NodeID) {
	if e.Kind == ExportJSONL {
		e.Path = e.File()
		return
	}
	c := e.Collector(0)
	enterprise, refresh := Enterprise(e.EnterpriseNumber()), Period(c.Refresh)
	size := MessageSize(cmp.Or(c.MessageSize, export.DefaultMessageSize(c.Transport)))
	e.Enterprise, e.Refresh, e.MessageSize = &enterprise, &refresh, &size
	if e.ObservationDomain == nil && node != nil {
		domain := ObservationDomain(*node)
		e.ObservationDomain = &domain
	}
}

// exportRules lists what is wrong with the receivers of records.
func (c *Config) exportRules(add func(path, problem, cure string)) {
	places := map[string]int{}
	for i, e := range c.Export {
		path := fmt.Sprintf("export[%d]", i)
		e.rules(path, add)
		place, key, cure := "jsonl "+e.File(), "path", "give it another path"
		text := strconv.Quote(e.File())
		if e.Kind == ExportIPFIX {
			place, key, cure = "ipfix "+string(e.Address.Transport)+e.Address.HostPort(), "address", "give it another address"
			text = formatCollector(e.Address)
		}
		if j, twice := places[place]; twice {
			add(path+"."+key, fmt.Sprintf("export[%d] writes to %s too", j, text), "remove one, or "+cure)
		}
		places[place] = i
	}
}

// rules lists what is wrong with one receiver: keys of the other kind, and those
// that do not suit each other.
func (e Export) rules(path string, add func(path, problem, cure string)) {
	if e.Kind == ExportJSONL {
		other := reflect.ValueOf(e)
		for _, f := range fields(other.Type()) {
			if f.key != "kind" && f.key != "path" && !other.Field(f.index).IsZero() {
				add(path+"."+f.key, "jsonl does not know it", "leave it out, or set kind: ipfix")
			}
		}
		return
	}
	if e.Path != "" {
		add(path+".path", "ipfix does not know it", "leave it out, or set kind: jsonl")
	}
	if e.Address == (CollectorAddress{}) {
		add(path+".address", "ipfix needs a collector", "add it: "+codecs[reflect.TypeFor[CollectorAddress]()].wants)
		return
	}
	source := netip.Addr(e.Source)
	if to, err := netip.ParseAddr(e.Address.Host); err == nil && source.IsValid() && source.Is4() != to.Is4() {
		add(path+".source", fmt.Sprintf("%s cannot send to %s", source, to), "give an address of the same family, or none")
	}
	if e.TLS == nil {
		return
	}
	if e.Address.Transport != export.TLS {
		add(path+".tls", "there is no TLS over "+string(e.Address.Transport), "leave it out, or write tls:// in address")
	}
	if (e.TLS.Certificate == "") != (e.TLS.Key == "") {
		add(path+".tls", "a certificate needs its key, and a key its certificate", "give both, or neither")
	}
}

// files lists what is wrong with the files for TLS, apart those that cannot be
// read on this machine.
func (d *decoder) files(c *Config) (wrong, unread Faults) {
	for i, e := range c.Export {
		if e.TLS == nil || e.Address.Transport != export.TLS {
			continue
		}
		for _, f := range export.TLSFiles(*e.TLS).Check() {
			path := fmt.Sprintf("export[%d].tls.%s", i, f.File)
			if d.followsFrom(path) {
				continue
			}
			fault := c.source.fault(path, path+": "+f.Problem, f.Cure)
			if f.Unread {
				unread = append(unread, fault)
			} else {
				wrong = append(wrong, fault)
			}
		}
	}
	return wrong, unread
}

// standardPorts are IANA's (RFC 7011 §10).
var standardPorts = map[export.Transport]uint16{export.UDP: 4739, export.TCP: 4739, export.TLS: 4740}

func parseCollector(s string) (CollectorAddress, error) {
	scheme, rest, _ := strings.Cut(s, "://")
	a := CollectorAddress{Transport: export.Transport(scheme), Port: standardPorts[export.Transport(scheme)]}
	switch {
	case a.Port == 0 && strings.Contains(s, "://"):
		return CollectorAddress{}, fmt.Errorf("%q begins with a transport that is neither udp, tcp nor tls", s)
	case a.Port == 0:
		return CollectorAddress{}, fmt.Errorf("%q does not begin with a transport, udp://, tcp:// or tls://", s)
	case rest == "":
		return CollectorAddress{}, fmt.Errorf("%q has no host", s)
	}
	if err := unbracketed(scheme, rest); err != nil {
		return CollectorAddress{}, err
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil { // no port, it seems
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
		return CollectorAddress{}, fmt.Errorf("%q is no port", port)
	}
	a.Host, a.Port = host, uint16(n)
	if addr, err := netip.ParseAddr(host); err == nil {
		a.Host = addr.String()
		if addr.IsUnspecified() {
			return CollectorAddress{}, fmt.Errorf("%s is nobody's address", host)
		}
	} else if !validHostName(host) {
		return CollectorAddress{}, fmt.Errorf("%q is neither an address nor a name", host)
	}
	return a, nil
}

// unbracketed refuses an IPv6 address without brackets that is followed by what
// may be a port: often it is an address as a whole, too, and another host's.
func unbracketed(scheme, rest string) error {
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return nil
	}
	host, port := rest[:i], rest[i+1:]
	if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || strings.Trim(port, "0123456789") != "" {
		return nil
	}
	if port == "" {
		port = strconv.Itoa(int(standardPorts[export.Transport(scheme)]))
	}
	with := "write " + scheme + "://[" + host + "]:" + port
	if _, err := netip.ParseAddr(rest); err == nil {
		return &curedError{fmt.Sprintf("%q may be an address, or the address %s and a port", rest, host),
			fmt.Sprintf("%s, or %s://[%s] where it is all address", with, scheme, rest)}
	}
	return &curedError{fmt.Sprintf("the IPv6 address before the port of %q has no brackets", rest), with}
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

func formatCollector(a CollectorAddress) string {
	if a == (CollectorAddress{}) {
		return ""
	}
	return string(a.Transport) + "://" + a.HostPort()
}

func parseSource(s string) (SourceAddress, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.IsUnspecified() || a.Is4In6() {
		return SourceAddress{}, fmt.Errorf("%q is not an address of a node", s)
	}
	return SourceAddress(a), nil
}

func parseEnterprise(s string) (Enterprise, error) {
	v, err := parseUint(s, 32)
	if n := ipfix.Enterprise(v); err == nil && (n == ipfix.EnterpriseIANA || n == ipfix.EnterpriseIOAM) {
		return 0, fmt.Errorf("%s has elements of its own", s)
	}
	return Enterprise(v), err
}

func parseMessageSize(s string) (MessageSize, error) {
	v, err := parseUint(s, 16)
	if err == nil && v < export.MinMessageSize {
		return 0, fmt.Errorf("%s is too small", s)
	}
	return MessageSize(v), err
}

// maxPeriod is a day.
const maxPeriod = 24 * time.Hour

func parsePeriod(s string) (Period, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with its unit", s)
	case d < time.Second:
		return 0, fmt.Errorf("%s is less than 1s", s)
	case d > maxPeriod:
		return 0, fmt.Errorf("%s is more than 24h", s)
	case d%time.Second != 0:
		return 0, fmt.Errorf("%s is not whole seconds", s)
	}
	return Period(d), nil
}

// formatPeriod writes 1m0s as 1m.
func formatPeriod(p Period) string {
	s := time.Duration(p).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
