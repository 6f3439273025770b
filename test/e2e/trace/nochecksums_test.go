// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

// A host's own large UDP packets leave by an interface that sums nothing: the
// kernel could not cut them once they have grown.
func TestSegmentsOfHostWithoutChecksums(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "encap"} {
		t.Run(mode, func(t *testing.T) {
			l := e2e.Raise(t, e2e.Domain(t, e2e.Transfer{Attach: "tcx", Athos: []string{"mode: auto", "mode: " + mode}, Aramis: []string{"{id: 123}", "{id: 123, remove: true}"}}))
			e2e.Must(t, l.Node("athos"), "ethtool", "-K", "eth1", "tx", "off")
			wire := e2e.StartWire(t, l, "porthos", "eth0")
			(&segmented{from: "athos", size: 1400, each: 20, calls: 20}).run(t, l)
			wire.Stop(t)
			checkSums(t, wire.Path, 400)
		})
	}
}
