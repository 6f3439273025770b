// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Trace answers the probes of "waymark trace" that end at this node.
type Trace struct {
	Listen  ListenAddress `key:"listen" default:"[::]:33434"`
	Allow   []Allowed     `key:"allow" required:"true"`
	KeyFile string        `key:"key-file" optional:"true"`
	Rate    PacketRate    `key:"rate" default:"1000"`
}

// pathTraceTexts say what the keys of path-trace mean.
var pathTraceTexts = yamlfile.KeyTexts{
	"listen": "Address and UDP port of probes.",
	"allow":  "Prefixes of nodes that are answered, 1 to 64, or any: an answer shows the inside of the network.",
	"key-file": "File with the key of the MACs in hexadecimal digits, the same at all nodes that trace and answer, mode " +
		"0600 or stricter. Probes without a right MAC are not answered.",
	"key-file, absent": "messages are not authenticated",
	"rate":             "The most answers per second. An answer is never longer than its probe.",
}

// Allowed is the prefix of nodes that are answered; ::/0 can be written as any.
type Allowed netip.Prefix

// Prefixes are those that are allowed.
func Prefixes(allowed []Allowed) []netip.Prefix {
	list := make([]netip.Prefix, len(allowed))
	for i, a := range allowed {
		list[i] = netip.Prefix(a)
	}
	return list
}

func parseAllowed(s string) (Allowed, error) {
	if s == "any" {
		s = "::/0"
	}
	p, err := parsePrefix(s)
	return Allowed(p), err
}

func (c *Config) traceRules(add func(path, problem, cure string)) {
	t := c.Trace
	if t == nil {
		return
	}
	if n := len(t.Allow); n == 0 || n > 64 {
		add("path-trace.allow", fmt.Sprintf("%d prefixes", n), "list 1 to 64 prefixes of the nodes that may trace, or [any]")
	}
	port := netip.AddrPort(t.Listen).Port()
	if s := c.Stamp; s != nil && netip.AddrPort(s.Listen).Port() == port {
		add("path-trace.listen", "stamp.listen has the same port", "give each its own port")
	}
	for i, r := range c.Responders {
		if r.At().Port() == port {
			add("path-trace.listen", fmt.Sprintf("responders[%d].listen has the same port", i), "give each its own port")
		}
	}
}
