// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
)

// maxTunnelDestinations leaves room for those of encapsulations.
const maxTunnelDestinations = model.MaxTunnelDestinations - model.MaxEncapsulations

// tunnelDestinations lists those in the file and those of encapsulations that are not
// in use: the node cannot use the latter now, but still protects them.
func (c *Config) tunnelDestinations(inUse []int) []netip.Addr {
	list := slices.Clone(c.TunnelDestinations)
	for i, e := range c.Encapsulations {
		if !slices.Contains(inUse, i) && e.Tunnel != nil && !slices.Contains(list, e.Tunnel.Destination) {
			list = append(list, e.Tunnel.Destination)
		}
	}
	return list
}

func (c *Config) tunnelRules(add func(path, problem, cure string)) {
	if n := len(c.TunnelDestinations); n > maxTunnelDestinations {
		add("tunnel-destinations", fmt.Sprintf("%d tunnel destinations are too many", n), fmt.Sprintf("use at most %d", maxTunnelDestinations))
	}
}
