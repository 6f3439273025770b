// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/e2e"
)

// addressBound is how soon a change of an interface's link-layer address must
// take effect.
const addressBound = 100 * time.Millisecond

// As soon as the agent has heard of a change, packets to an interface's old
// link-layer address are no longer forwarded and those to the new one are; what
// leaves the interface carries its new address.
func TestForwardFollowsLinkAddresses(t *testing.T) {
	for _, attach := range []string{"xdp", string(e2e.TCModes()[0])} {
		t.Run(attach, func(t *testing.T) {
			t.Parallel()
			if attach == "xdp" {
				e2e.NeedRedirection(t)
			}
			w := raiseTwins(t, attach)
			w.both(t, toFirst)
			for i := range 6 {
				was, is := twinAddress(0x20*(i%2)), twinAddress(0x20*((i+1)%2))
				w.changeAddress(t, 0, was, is)
			}
			for i := range 4 {
				was, is := twinAddress(1+0x20*(i%2)), twinAddress(1+0x20*((i+1)%2))
				w.changeAddress(t, 1, was, is)
			}
			e2e.Await(t, "forwarding past the stack", 10*looked, func() bool { return !w.byStack(t) })
			if _, fast := w.compare(t, w.someTrials()); fast == 0 {
				t.Error("no packet is forwarded fast after the changes")
			}
		})
	}
}

// changeAddress gives a port of the fast router another link-layer address while
// packets pass, and checks that none shows the old address after the bound.
func (w *twins) changeAddress(t *testing.T, port int, was, is []byte) {
	t.Helper()
	e2e.Await(t, "forwarding past the stack", 10*looked, func() bool { return !w.byStack(t) })
	send := func(until time.Time) (out []trial) {
		for time.Now().Before(until) {
			p := w.newTrial("2001:db8:5::1", "2001:db8:a::1", 0, 17, datagram(1, 2, 200))
			if port == 0 {
				copy(p.frame, was)
			}
			if err := unix.Sendto(w.ports["fast"].fd, p.frame, 0, w.ports["fast"].to); err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
			time.Sleep(time.Millisecond)
		}
		return out
	}
	send(time.Now().Add(20 * time.Millisecond)) // until next hops are resolved
	w.configure(t, w.fast, atAddress(port, is))
	changed := time.Now()
	late := send(changed.Add(addressBound))
	later := send(changed.Add(addressBound + 300*time.Millisecond))
	time.Sleep(20 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	wrong := func(trials []trial) (n int) {
		for _, p := range trials {
			came := w.came["fast"][p.number]
			isOld := func(text string) bool {
				return bytes.Contains([]byte(text), []byte(fmt.Sprintf("eth1 %x%s", nextHopAddress(1, 2), hex.EncodeToString(was))))
			}
			if port == 0 && len(came) > 0 || port == 1 && (len(came) != 1 || slices.ContainsFunc(came, isOld)) {
				n++
			}
		}
		return n
	}
	t.Logf("port %d: of %d packets in the %v after the change, %d went as before", port, len(late), addressBound, wrong(late))
	if n := wrong(later); n > 0 {
		t.Errorf("port %d: of %d packets later than %v after the change, %d went as before it", port, len(later), addressBound, n)
	}
	w.came["fast"] = map[uint32][]string{}
}
