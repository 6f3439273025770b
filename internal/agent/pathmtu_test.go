// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/pathmtu"
	"github.com/waymark-net/waymark/test/craft"
)

// tunnelConfig has two tunnels to one destination, one to another, and a rule
// without a tunnel.
const tunnelConfig = baseConfig + `
encapsulations:
  - {name: one, interface: eth1, mode: encap, match: {destination: "2001:db8:a::/48"}, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::3"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: two, interface: eth1, mode: auto, match: {destination: "2001:db8:b::/48"}, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::3"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: other, interface: eth1, mode: encap, match: {destination: "2001:db8:c::/48"}, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::4"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
  - {name: inline, interface: eth1, mode: inline, match: {destination: "2001:db8:d::/48"}, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}
`

// tooBig is a Packet Too Big message about a packet of 1600 bytes to
// 2001:db8:ff::3.
func tooBig(mtu uint32) []byte {
	grown := craft.Between("2001:db8:ff::1", "2001:db8:ff::3", craft.HopByHop)
	m := binary.BigEndian.AppendUint32(craft.Message(2, 0), mtu)
	return append(append(m, grown.Header(1600-craft.HeaderLen)...), 41, 1, 1, 0)
}

// pathMTUs are the values set in the data plane for each encapsulation, in order.
func (h *harness) pathMTUs() [4]int {
	d := h.datapath
	return [4]int{d.pathMTU("one"), d.pathMTU("two"), d.pathMTU("other"), d.pathMTU("inline")}
}

func TestPathMTUReachesTheDataPlane(t *testing.T) {
	h := newHarness(t, tunnelConfig)
	h.start()
	lowered := [4]int{1500, 1500, 0, 0}
	h.system.tooBig <- tooBig(1500)
	eventually(t, "the path MTU is set", func() bool { return h.pathMTUs() == lowered })
	if n := h.datapath.applications(); n != 1 {
		t.Errorf("%d generations, want the one", n)
	}
	if !h.warned(health.PathMTULowered) || h.warned(health.PathMTUUnwatched) {
		t.Error("warned wrongly")
	}
	s := h.status()
	if len(s.PathMTUs) != 1 || s.PathMTUs[0].MTU != 1500 || s.PathMTUs[0].Destination.String() != "2001:db8:ff::3" || time.Until(s.PathMTUs[0].Until.Time) < 9*time.Minute {
		t.Errorf("status shows %+v", s.PathMTUs)
	}

	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if h.pathMTUs() != lowered {
		t.Errorf("after a reload %v, want %v", h.pathMTUs(), lowered)
	}
	h.crash()
	h.datapath = newFakeDatapath()
	h.start()
	if h.pathMTUs() != lowered {
		t.Errorf("after a restart %v, want %v", h.pathMTUs(), lowered)
	}

	only[*pathMTUs](h).table.Expire(time.Now().Add(pathmtu.Lifetime))
	eventually(t, "the path is tried again", func() bool { return h.pathMTUs() == [4]int{} })
	if h.warned(health.PathMTULowered) {
		t.Error("warned of what is not known any more")
	}
	h.crash()
	h.start()
	if h.pathMTUs() != ([4]int{}) {
		t.Errorf("%v was kept, and is not known any more", h.pathMTUs())
	}
}

// An unreadable file costs a packet, not the start.
func TestPathMTUFileDamaged(t *testing.T) {
	h := newHarness(t, tunnelConfig)
	h.start()
	h.crash()
	if err := os.WriteFile(h.place.PathMTUFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	if !strings.Contains(h.log.String(), "path MTUs will be learned again") {
		t.Errorf("the log does not say what is lost:\n%s", h.log)
	}
}

func TestPathMTUOfForeignSource(t *testing.T) {
	h := newHarness(t, tunnelConfig)
	h.start()
	if h.warned(health.PathMTUUnwatched) {
		t.Error("warned, and the source is this node's")
	}
	h.system.mu.Lock()
	h.system.elsewhere = netip.MustParseAddr("2001:db8:ff::1")
	h.system.mu.Unlock()
	if !h.warned(health.PathMTUUnwatched) {
		t.Error("no warning that messages go elsewhere")
	}
}

func TestPathMTUUnwatched(t *testing.T) {
	for _, test := range []struct {
		name, config string
		warned       bool
	}{{"tunnels", tunnelConfig, true}, {"no tunnel", baseConfig, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, test.config)
			h.system.deaf = errors.New("operation not permitted")
			h.start()
			eventually(t, "the agent knows", func() bool { return only[*pathMTUs](h).fault.Load() != nil })
			if h.warned(health.PathMTUUnwatched) != test.warned {
				t.Errorf("warned %v, want %v", !test.warned, test.warned)
			}
		})
	}
}
