// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// A host's own large UDP packets leave by an interface that sums nothing: the
// kernel could not cut them once they have grown.
func TestSegmentsOfHostWithoutChecksums(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "encap"} {
		t.Run(mode, func(t *testing.T) {
			l := raise(t, domain(t, transfer{attach: "tcx", athos: []string{"mode: auto", "mode: " + mode}, aramis: []string{"{id: 123}", "{id: 123, remove: true}"}}))
			must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "off")
			wire := startWire(t, l, "porthos", "eth0")
			(&segmented{from: "athos", size: 1400, each: 20, calls: 20}).run(t, l)
			wire.stop(t)
			checkSums(t, wire.path, 400)
		})
	}
}
