// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Decapsulation is a tunnel that ends at this node.
type Decapsulation struct {
	TunnelDestination netip.Addr     `key:"tunnel-destination" required:"true"`
	Sources           []netip.Prefix `key:"sources" optional:"any"`
	Bare              *bool          `key:"bare" optional:"true"`
}

// decapsulationTexts say what the keys of decapsulations mean.
var decapsulationTexts = yamlfile.KeyTexts{
	"tunnel-destination": "Destination address of the outer header. No tunnel device is needed.",
	"sources": "Prefixes of accepted outer source addresses, 1 to 64: those of the encapsulating nodes. Packets from " +
		"other sources are not decapsulated (decap_refused_source): this node's kernel, to which they are " +
		"addressed, then discards them, unless it has a tunnel of its own for them.",
	"bare": "Whether packets without IOAM of a namespace of this node are decapsulated. If not (decap_refused_bare), " +
		"the kernel discards them, as those from other sources. true without sources lets any sender that reaches " +
		"the tunnel's end send packets into the network as if from here.",
	"bare, absent": "true with sources, else false",
}

// TakesBare reports whether packets without IOAM are decapsulated; by default, only
// where trusted sources are named.
func (d Decapsulation) TakesBare() bool {
	if d.Bare != nil {
		return *d.Bare
	}
	return len(d.Sources) > 0
}

func (d Decapsulation) node() model.Decapsulation {
	return model.Decapsulation{TunnelDestination: d.TunnelDestination, Sources: d.Sources, Bare: d.TakesBare()}
}

// AddDecapsulation adds a tunnel that ends at this node.
func (c *Config) AddDecapsulation(d Decapsulation) (*Config, error) {
	if c.decapsulation(d.TunnelDestination) >= 0 {
		return nil, refuse("decapsulations", fmt.Sprintf("decapsulation %s exists already", d.TunnelDestination),
			fmt.Sprintf("to change it, remove it first with: waymark decapsulation del %s", d.TunnelDestination))
	}
	return c.edit(func(next *Config) { next.Decapsulations = append(next.Decapsulations, d) })
}

// RemoveDecapsulation removes a tunnel that ends at this node.
func (c *Config) RemoveDecapsulation(destination netip.Addr) (*Config, error) {
	i := c.decapsulation(destination)
	if i < 0 {
		return nil, refuse(
			"decapsulations",
			fmt.Sprintf("there is no decapsulation %s", destination),
			"list them with: waymark decapsulation show",
		)
	}
	return c.edit(func(next *Config) { next.Decapsulations = slices.Delete(next.Decapsulations, i, i+1) })
}

func (c *Config) decapsulation(destination netip.Addr) int {
	return slices.IndexFunc(c.Decapsulations, func(d Decapsulation) bool { return d.TunnelDestination == destination })
}

// MarshalJSON writes the decapsulation with the keys of the file.
func (d Decapsulation) MarshalJSON() ([]byte, error) { return marshalJSON(&d) }

// UnmarshalJSON reads a decapsulation as strictly as the file.
func (d *Decapsulation) UnmarshalJSON(data []byte) error { return decodeFragment(data, d) }
