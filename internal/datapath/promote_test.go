// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
)

// Many interfaces are served by clsact at once, then move to tcx while packets pass, edges
// first, and lose their programs at once. WAYMARK_INTERFACES sets their number.
func TestManyInterfaces(t *testing.T) {
	if tcModes(t)[0] != datapath.AttachTCX {
		t.Skip("this kernel has no tcx")
	}
	number := 20
	if n, err := strconv.Atoi(os.Getenv("WAYMARK_INTERFACES")); err == nil {
		number = n
	}
	neighbourly(t, "wm-dp-many", datapath.AttachAuto, func(t *testing.T, l *lab.Lab, d *datapath.Datapath, c datapath.Config) {
		for i := range number / 2 {
			pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("many%d", i)}, PeerName: fmt.Sprintf("peer%d", i)}
			if err := netlink.LinkAdd(pair); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{pair.Name, pair.PeerName} {
				device, err := netlink.LinkByName(name)
				if err != nil {
					t.Fatal(err)
				}
				at := model.IfIndex(device.Attrs().Index)
				c.Node.Interfaces = append(c.Node.Interfaces, model.Interface{Index: at, Name: name, ID: 1, IDWide: 1, Roles: model.RoleIngress | model.RoleEgress})
			}
		}
		began := time.Now()
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d interfaces are served after %v", number+1, time.Since(began))
		expect := func(mode datapath.AttachMode) {
			t.Helper()
			for _, i := range d.Interfaces() {
				if i.Ingress != mode || i.Egress != mode {
					t.Errorf("%s: %s and %s, want %s", i.Name, i.Ingress, i.Egress, mode)
				}
			}
		}
		expect(datapath.AttachClsact)
		in, out := seen(t, d)
		sent := make(chan lab.TrafficResult, 1)
		go func() {
			ping := l.Topology().Traffic[0]
			ping.Count = 100
			r, err := l.Send(t.Context(), ping)
			if err != nil {
				t.Error(err)
			}
			sent <- r
		}()
		began = time.Now()
		for more := true; more; {
			var err error
			if more, err = d.Promote(10 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > patience.Of(time.Minute) {
				t.Fatal("it does not end")
			}
		}
		t.Logf("they are in tcx after %v", time.Since(began))
		expect(datapath.AttachTCX)
		r := <-sent
		in2, out2 := seen(t, d)
		if got := min(in2-in, out2-out); r.Lost() > 0 || got < uint64(r.Sent)-1 || got > uint64(r.Sent)+20 {
			t.Errorf("%d packets each way, the hooks saw %d and %d", r.Sent, in2-in, out2-out)
		}
		if !d.Intact() {
			t.Error("not intact")
		}
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		expect(datapath.AttachTCX)
		began = time.Now()
		if err := d.Remove(); err != nil {
			t.Fatal(err)
		}
		t.Logf("their programs are off after %v", time.Since(began))
	})
}
