// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/test/e2e"
)

// Like a veth, a tap has XDP in its driver and sends what XDP redirects:
// everything that a router does with packets, including encapsulation and
// decapsulation, gives the same bytes as the stack's path. Where the driver makes
// an skb first, the kernel's generic XDP runs the same program, with the same
// result.
func TestForwardTaps(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const count = 1000
	packets := randomPackets(t, count)
	l, in, out := raiseTaps(t, fastChain, 0, "xdp")
	came, fast := map[string]map[int][][]byte{}, map[string]e2e.Forwards{}
	for _, way := range []string{"driver", "generic", "stack"} {
		if way == "stack" {
			forwarding(t, l, "router", "stack")
		}
		limit := math.MaxInt32
		if way == "generic" {
			limit = 1 << 20
		}
		in.bound(t, limit)
		came[way] = passTaps(t, l, in, out, packets)
		fast[way] = e2e.ForwardsOf(t, l, "router")
	}
	first, second, third := fast["driver"], fast["generic"], fast["stack"]
	t.Logf("%d packets arrived; fast %v, to the stack %v", len(came["driver"]), first.Fast, first.ToStack)
	if n := first.Sum(); n < count/4 || second.Sum() != 2*n || third.Sum() != 2*n {
		t.Errorf("forwarded fast: %d in the driver, %d more with generic XDP, %d by the stack", n, second.Sum()-n, third.Sum()-second.Sum())
	}
	for _, outcome := range []string{"trace_filled", "encap_tunneled", "encap_inserted"} {
		if first.Fast[outcome] == 0 {
			t.Errorf("no packet was forwarded fast with the outcome %s: %v", outcome, first.Fast)
		}
	}
	if n := e2e.StatusInterface(t, l, "router", "eth0").Ingress["tunnel_decapsulated"]; n == 0 {
		t.Error("no tunnel was decapsulated")
	}
	for _, way := range []string{"driver", "generic"} {
		faults := 0
		for i, p := range packets {
			if a, b := fmt.Sprintf("%x", came[way][i+1]), fmt.Sprintf("%x", came["stack"][i+1]); a != b && faults < 3 {
				faults++
				t.Errorf("packet %x\n%s\n%sby the stack\n%s", p[:min(len(p), 200)], way, dump(came[way][i+1]), dump(came["stack"][i+1]))
			}
		}
	}
}

// A virtual machine's tap may leave checksums open, and says so in a header that
// no program sees: its packets go through the stack, which completes the
// checksums, and a warning reports it.
func TestForwardTapOfVirtualMachine(t *testing.T) {
	t.Parallel()
	keeps := strings.NewReplacer(", remove: true", "", `decapsulations:
        - {tunnel-destination: "2001:db8:2::9"}`, "decapsulations: []").Replace(fastChain)
	l, in, out := raiseTaps(t, keeps, unix.IFF_VNET_HDR, "xdp")
	warnsOfTap(t, l, health.FastRefused)
	whole := toPort("2001:db8:2::2")
	open, at := openChecksum(whole)
	if _, err := in.file.Write(in.frame(linkAddress(t, l.Node("router"), "eth0"), open, 40, at)); err != nil {
		t.Fatal(err)
	}
	came := passTaps(t, l, in, out, nil)[1]
	whole[7]--
	if len(came) != 1 || !bytes.Equal(came[0][14:], whole) {
		t.Errorf("it arrived as\n%swant\n%s", dump(came), hex.Dump(whole))
	}
	if f := e2e.ForwardsOf(t, l, "router"); f.Sum() > 0 || f.Stack == 0 {
		t.Errorf("the router forwarded %d packets fast, %d by the stack", f.Sum(), f.Stack)
	}
}
