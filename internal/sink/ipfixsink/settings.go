// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// Settings configure a sink of kind ipfix.
type Settings struct {
	Address           CollectorAddress   `key:"address" optional:"true"`
	Source            SourceAddress      `key:"source" optional:"true"`
	ObservationDomain *ObservationDomain `key:"observation-domain" optional:"true"`
	Enterprise        *Enterprise        `key:"enterprise" optional:"true"`
	MessageSize       *MessageSize       `key:"message-size" optional:"true"`
	Refresh           *yamlfile.Period   `key:"refresh" optional:"true"`
	TLS               *ExportTLS         `key:"tls" optional:"true"`
}

// ExportTLS configures TLS.
type ExportTLS struct {
	Certificate string `key:"certificate" optional:"true"`
	Key         string `key:"key" optional:"true"`
	CA          string `key:"ca" optional:"true"`
	ServerName  string `key:"server-name" optional:"true"`
}

// KeyTexts say what the keys of the settings mean.
var KeyTexts = yamlfile.KeyTexts{
	"address": "Of ipfix: the collector, as udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT. Without a port it is " +
		"IANA's: 4739, with TLS 4740. A name is looked up for each session.",
	"address, absent":            "required with ipfix",
	"source":                     "Of ipfix: the source address, IPv4 or IPv6 like the collector's.",
	"source, absent":             "the kernel's choice",
	"observation-domain":         "Of ipfix: the Observation Domain ID; unique among the exporters of a collector.",
	"observation-domain, absent": "node.id",
	"enterprise": "Of ipfix: your private enterprise number, for Waymark's own elements. The default is the number for " +
		"documentation (RFC 5612); the collector must use the same.",
	"enterprise, absent":   "32473",
	"message-size":         "Of ipfix: maximum octets of a message. Over UDP, a smaller path MTU limits it further.",
	"message-size, absent": "as the path MTU allows, at most 8952; 16384 over TCP",
	"refresh": "Of ipfix: how often names and statistics are sent and, over UDP, all templates (RFC 7011 §8.4). A " +
		"collector that starts later understands nothing until then.",
	"refresh, absent": "1m",
	"tls": "Of ipfix with tls://: credentials, each in a PEM file that is read again for each connection. A relative " +
		"path starts from the directory in which the agent was started.",
	"tls, absent":             "no certificate of this node, the system's authorities",
	"tls.certificate":         "This node's certificate, with intermediate certificates.",
	"tls.certificate, absent": "none",
	"tls.key":                 "The private key of certificate.",
	"tls.key, absent":         "none",
	"tls.ca":                  "The authorities for the collector's certificate.",
	"tls.ca, absent":          "the system's authorities",
	"tls.server-name":         "The name or address that the collector's certificate must have.",
	"tls.server-name, absent": "the host of address",
}

// EnterpriseNumber is the enterprise number of our own elements.
func (s *Settings) EnterpriseNumber() ipfix.Enterprise {
	if s.Enterprise == nil {
		return ipfix.EnterpriseExample
	}
	return ipfix.Enterprise(*s.Enterprise)
}

// Config is the exporter's configuration at the node with that id.
func (s *Settings) Config(node ioam.NodeID) Config {
	c := Config{
		Transport: s.Address.Transport, Address: s.Address.HostPort(), Source: netip.Addr(s.Source),
		Domain: uint32(node), Refresh: defaultRefresh,
	}
	if s.ObservationDomain != nil {
		c.Domain = uint32(*s.ObservationDomain)
	}
	if s.MessageSize != nil {
		c.MessageSize = int(*s.MessageSize)
	}
	if s.Refresh != nil {
		c.Refresh = time.Duration(*s.Refresh)
	}
	if s.TLS != nil {
		c.Files = TLSFiles(*s.TLS)
	}
	return c
}

// SetDefaults fills in the defaults that are known without a host.
func (s *Settings) SetDefaults(node *ioam.NodeID) {
	c := s.Config(0)
	enterprise, refresh := Enterprise(s.EnterpriseNumber()), yamlfile.Period(c.Refresh)
	size := MessageSize(cmp.Or(c.MessageSize, DefaultMessageSize(c.Transport)))
	s.Enterprise, s.Refresh, s.MessageSize = &enterprise, &refresh, &size
	if s.ObservationDomain == nil && node != nil {
		domain := ObservationDomain(*node)
		s.ObservationDomain = &domain
	}
}

// Place is the collector.
func (s *Settings) Place() (text, key string) { return s.Address.String(), "address" }

// Check adds the errors in the settings.
func (s *Settings) Check(path string, add func(path, problem, cure string)) {
	if s.Address == (CollectorAddress{}) {
		add(path+".address", "ipfix needs a collector", "add it: "+wantsCollector)
		return
	}
	source := netip.Addr(s.Source)
	if to, err := netip.ParseAddr(s.Address.Host); err == nil && source.IsValid() && source.Is4() != to.Is4() {
		add(path+".source", source.String()+" cannot send to "+to.String(), "use an address of the same family, or remove source")
	}
	if s.TLS == nil {
		return
	}
	if s.Address.Transport != TLS {
		add(path+".tls", "there is no TLS over "+string(s.Address.Transport), "remove it, or write tls:// in address")
	}
	if (s.TLS.Certificate == "") != (s.TLS.Key == "") {
		add(path+".tls", "a certificate needs its key, and a key its certificate", "give both, or neither")
	}
}

// Files lists the errors in the files of TLS.
func (s *Settings) Files() (list []sink.FileFault) {
	if s.TLS == nil || s.Address.Transport != TLS {
		return nil
	}
	for _, f := range TLSFiles(*s.TLS).Check() {
		list = append(list, sink.FileFault{Key: "tls." + string(f.File), Unread: f.Unread, Problem: f.Problem, Cure: f.Cure})
	}
	return list
}

// Remote is the collector's host.
func (s *Settings) Remote() *sink.Remote {
	to := s.Address.Remote()
	return &to
}

// DependsOnNode is true: the node's id is the Observation Domain ID unless another one is set.
func (s *Settings) DependsOnNode() bool { return true }

// Open makes the sink for the node with that id.
func (s *Settings) Open(node ioam.NodeID, env sink.Environment) (sink.Sink, error) {
	return Open(s.Config(node), s.EnterpriseNumber(), env)
}
