// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

// Packets that this node sends would get a header if they fit.
func TestWatch(t *testing.T) {
	testnet.Enter(t)
	testnet.AddVeth(t, "near", "far", 1400)
	testnet.Run(
		t,
		"ip addr add 2001:db8:1::1/64 dev near nodad; ip link set near up; ip link set far up; "+
			"ip -6 neigh add 2001:db8:1::2 lladdr 02:00:00:00:00:02 dev near",
	)
	testnet.AwaitUp(t, "near")
	link, err := net.InterfaceByName("near")
	if err != nil {
		t.Fatal(err)
	}
	index := model.IfIndex(link.Index)
	node := model.NodeConfig{
		ID: 1, IDWide: 1,
		Interfaces: []model.Interface{{Index: index, Name: "near", ID: 11, IDWide: 11, Roles: model.RoleEgress, MTU: 1400}},
		Namespaces: []model.Namespace{{ID: 123}},
		Encapsulations: []model.Encapsulation{{
			Name: "all", Interface: index, Match: model.Match{Destination: netip.MustParsePrefix("2001:db8:1::2/128")},
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}),
		}},
	}
	ready := func() { // on this thread, which is in the namespace
		to, err := net.Dial("udp6", "[2001:db8:1::2]:9")
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		for _, length := range []int{100, 100, 100, 1400 - 48} { // the last one fills the MTU
			if _, err = to.Write(make([]byte, length)); err != nil {
				t.Error(err)
			}
		}
	}
	report, err := Watch(context.Background(), Options{Node: node, IsOwn: health.OwnAddresses(), For: time.Second, Ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	out := report.Interfaces[0].Egress
	if out.Headers != 3 || out.TooLarge != 1 || out.Dropped != 0 || out.Outcomes["encap_inserted"] != 3 ||
		out.Outcomes["encap_skipped_mtu"] != 1 {
		t.Errorf("%+v", out)
	}
	if text := report.String(); !strings.Contains(text, "nothing was changed") || !strings.Contains(text, "near             egress") ||
		!strings.Contains(text, "what would become of them\n") ||
		strings.Count(text, "what would") != 1 {
		t.Error(text)
	}
}
