// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"testing"

	"github.com/waymark-net/waymark/test/testnet"
)

// A queue of our own device that is full makes the exporter wait. It ends no
// session and costs no record.
func TestFullDeviceQueue(t *testing.T) {
	if !testnet.Process(t, router, beyond) {
		return
	}
	for _, end := range farEnds {
		raisePath(t, 1500)
		// The queue has room for less than a socket's buffer, and cuts nothing.
		testnet.Run(t, "tc qdisc add dev out root tbf rate 40mbit burst 80k limit 100k")
		r, x, c, stop := exportBeyond(t, end.address)
		p := postcard(t)
		offer(x, c, p, 20000)
		waitFor(t, "receiving", func() bool { return r.records() == 20000 })
		stop()
		r.close()
		if s := check(t, c); s.Written != 20000 || r.records() != 20000 || r.missed != 0 || r.decoder.Sessions() != 1 {
			t.Errorf("%s: received %d, missed %d, in %d sessions, of %+v", c.config.Address, r.records(), r.missed, r.decoder.Sessions(), s)
		}
		lowerPath(t)
	}
}
