// SPDX-License-Identifier: Apache-2.0

package config

import "slices"

// The edits below return a changed copy, checked like a file; c does not change.

// edit applies change to a copy of c and checks it.
func (c *Config) edit(change func(*Config)) (*Config, error) {
	next := *c
	next.source = nil
	next.Interfaces = slices.Clone(c.Interfaces)
	next.Namespaces = slices.Clone(c.Namespaces)
	next.Encapsulations = slices.Clone(c.Encapsulations)
	next.Decapsulations = slices.Clone(c.Decapsulations)
	next.Flows = slices.Clone(c.Flows)
	change(&next)
	if err := next.atRuntime(next.check()).Err(); err != nil {
		return nil, err
	}
	return &next, nil
}
