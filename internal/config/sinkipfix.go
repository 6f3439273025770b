// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"net/netip"
	"reflect"
	"time"

	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// IPFIX is a sink of kind ipfix.
type IPFIX struct {
	Address           CollectorAddress   `key:"address" absent:"required with ipfix" doc:"Of ipfix: the collector, as udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT. Without a port it is IANA's: 4739, with TLS 4740. A name is looked up for each session."`
	Source            SourceAddress      `key:"source" absent:"the kernel's choice" doc:"Of ipfix: the source address, IPv4 or IPv6 like the collector's."`
	ObservationDomain *ObservationDomain `key:"observation-domain" absent:"node.id" doc:"Of ipfix: the Observation Domain ID; unique among the exporters of a collector."`
	Enterprise        *Enterprise        `key:"enterprise" absent:"32473" doc:"Of ipfix: your private enterprise number, for Waymark's own elements. The default is the number for documentation (RFC 5612); the collector must use the same."`
	MessageSize       *MessageSize       `key:"message-size" absent:"as the path MTU allows, at most 8952; 16384 over TCP" doc:"Of ipfix: maximum octets of a message. Over UDP, a smaller path MTU limits it further."`
	Refresh           *Period            `key:"refresh" absent:"1m" doc:"Of ipfix: how often names and statistics are sent and, over UDP, all templates (RFC 7011 §8.4). A collector that starts later understands nothing until then."`
	TLS               *ExportTLS         `key:"tls" absent:"no certificate of this node, the system's authorities" doc:"Of ipfix with tls://: credentials, each in a PEM file that is read again for each connection. A relative path starts from the directory in which the agent was started."`
}

// ExportTLS configures TLS.
type ExportTLS struct {
	Certificate string `key:"certificate" absent:"none" doc:"This node's certificate, with intermediate certificates."`
	Key         string `key:"key" absent:"none" doc:"The private key of certificate."`
	CA          string `key:"ca" absent:"the system's authorities" doc:"The authorities for the collector's certificate."`
	ServerName  string `key:"server-name" absent:"the host of address" doc:"The name or address that the collector's certificate must have."`
}

// number is the enterprise number of our own elements.
func (e *IPFIX) number() ipfix.Enterprise {
	if e.Enterprise == nil {
		return ipfix.EnterpriseExample
	}
	return ipfix.Enterprise(*e.Enterprise)
}

// collector is the exporter's configuration at the node with that id.
func (e *IPFIX) collector(node ioam.NodeID) ipfixsink.Config {
	c := ipfixsink.Config{
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
		c.Files = ipfixsink.TLSFiles(*e.TLS)
	}
	return c
}

func (e *IPFIX) setDefaults(node *ioam.NodeID) {
	c := e.collector(0)
	enterprise, refresh := Enterprise(e.number()), Period(c.Refresh)
	size := MessageSize(cmp.Or(c.MessageSize, ipfixsink.DefaultMessageSize(c.Transport)))
	e.Enterprise, e.Refresh, e.MessageSize = &enterprise, &refresh, &size
	if e.ObservationDomain == nil && node != nil {
		domain := ObservationDomain(*node)
		e.ObservationDomain = &domain
	}
}

func (e *IPFIX) place() (text, key string) { return formatCollector(e.Address), "address" }

func (e *IPFIX) rules(path string, add func(path, problem, cure string)) {
	if e.Address == (CollectorAddress{}) {
		add(path+".address", "ipfix needs a collector", "add it: "+codecs[reflect.TypeFor[CollectorAddress]()].Wants)
		return
	}
	source := netip.Addr(e.Source)
	if to, err := netip.ParseAddr(e.Address.Host); err == nil && source.IsValid() && source.Is4() != to.Is4() {
		add(path+".source", source.String()+" cannot send to "+to.String(), "use an address of the same family, or remove source")
	}
	if e.TLS == nil {
		return
	}
	if e.Address.Transport != ipfixsink.TLS {
		add(path+".tls", "there is no TLS over "+string(e.Address.Transport), "remove it, or write tls:// in address")
	}
	if (e.TLS.Certificate == "") != (e.TLS.Key == "") {
		add(path+".tls", "a certificate needs its key, and a key its certificate", "give both, or neither")
	}
}

func (e *IPFIX) files() (list []fileFault) {
	if e.TLS == nil || e.Address.Transport != ipfixsink.TLS {
		return nil
	}
	for _, f := range ipfixsink.TLSFiles(*e.TLS).Check() {
		list = append(list, fileFault{key: "tls." + string(f.File), unread: f.Unread, problem: f.Problem, cure: f.Cure})
	}
	return list
}

func (e *IPFIX) remote() (to CollectorAddress, clear, ok bool) {
	return e.Address, e.Address.Transport != ipfixsink.TLS, true
}

// depends: the node's id is the Observation Domain ID unless another one is set.
func (e *IPFIX) depends() bool { return true }

func (e *IPFIX) open(node ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	return ipfixsink.Open(e.collector(node), e.number(), env)
}
