// SPDX-License-Identifier: Apache-2.0

package config

// StillActive are the keys of what works in mode observe as in mode full, because it changes no packet of
// others: it sends packets of this node's own, answers those that are addressed to it, or reads in the
// kernel. None in mode full.
func (c *Config) StillActive() []string {
	if c.Node.Mode != ModeObserve {
		return nil
	}
	var list []string
	for _, one := range []struct {
		key string
		is  bool
	}{
		{"probes", c.Probes != nil}, {"path-trace", c.Trace != nil}, {"stamp", c.Stamp != nil}, {"responders", len(c.Responders) > 0},
		{"node.queue-delay", c.Node.QueueDelay != QueueDelayNever}, {"node.kernel-events", c.Node.KernelEvents},
	} {
		if one.is {
			list = append(list, one.key)
		}
	}
	return list
}
