// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/pathmtu"
)

// pathMTUs are the values set in the data plane for each encapsulation, in order.
func (h *harness) pathMTUs() [4]int {
	d := h.Datapath
	return [4]int{d.PathMTU("one"), d.PathMTU("two"), d.PathMTU("other"), d.PathMTU("inline")}
}

func TestPathMTUReachesTheDataPlane(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	lowered := [4]int{1500, 1500, 0, 0}
	h.System.TooBig <- agenttest.PacketTooBig(1500)
	agenttest.Eventually(t, "the path MTU is set", func() bool { return h.pathMTUs() == lowered })
	if n := h.Datapath.Applications(); n != 1 {
		t.Errorf("%d generations, want the one", n)
	}
	if mtu, until := h.paths.Known(netip.MustParseAddr("2001:db8:ff::3")); mtu != 1500 || until.IsZero() || h.Warned(health.PathMTUUnwatched) {
		t.Errorf("%d until %v is known, or a warning", mtu, until)
	}
	s := h.Status()
	if len(s.PathMTUs) != 1 || s.PathMTUs[0].MTU != 1500 || s.PathMTUs[0].Destination.String() != "2001:db8:ff::3" ||
		time.Until(s.PathMTUs[0].Until.Time) < 9*time.Minute {
		t.Errorf("status shows %+v", s.PathMTUs)
	}

	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if h.pathMTUs() != lowered {
		t.Errorf("after a reload %v, want %v", h.pathMTUs(), lowered)
	}
	h.Crash()
	h.Datapath = agenttest.NewDatapath()
	h.Start()
	if h.pathMTUs() != lowered {
		t.Errorf("after a restart %v, want %v", h.pathMTUs(), lowered)
	}

	h.paths.table.Expire(time.Now().Add(pathmtu.Lifetime))
	agenttest.Eventually(t, "the path is tried again", func() bool { return h.pathMTUs() == [4]int{} })
	if mtu, _ := h.paths.Known(netip.MustParseAddr("2001:db8:ff::3")); mtu != 0 {
		t.Errorf("%d is known, and has expired", mtu)
	}
	h.Crash()
	h.Start()
	if h.pathMTUs() != ([4]int{}) {
		t.Errorf("%v was kept, and is not known any more", h.pathMTUs())
	}
}

// An unreadable file costs a packet, not the start.
func TestPathMTUFileDamaged(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	h.Crash()
	if err := os.WriteFile(h.Instance.PathMTUFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if !strings.Contains(h.Log.String(), "path MTUs will be learned again") {
		t.Errorf("the log does not say what is lost:\n%s", h.Log)
	}
}

func TestPathMTUUnwatched(t *testing.T) {
	for _, test := range []struct {
		name, config string
		warned       bool
	}{{"tunnels", agenttest.TunnelConfig, true}, {"no tunnel", agenttest.BaseConfig, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, test.config)
			h.System.ErrorsUnheard = errors.New("operation not permitted")
			h.Start()
			agenttest.Eventually(t, "the agent knows", func() bool { return h.paths.fault.Load() != nil })
			if h.Warned(health.PathMTUUnwatched) != test.warned {
				t.Errorf("warned %v, want %v", !test.warned, test.warned)
			}
		})
	}
}
