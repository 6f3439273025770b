// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"fmt"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

// Namespaces of a path, besides that of the exporter:
//
//	exporter --- near [router] far --- collector
const (
	router = "-r"
	beyond = "-b" // the collector's
)

// raisePath makes the path, with an MTU for its far link.
func raisePath(t *testing.T, far int) {
	t.Helper()
	r, b := testnet.Other(router), testnet.Other(beyond)
	testnet.Run(t, "ip link add out type veth peer name near netns "+r)
	testnet.Run(t, "ip -n "+r+" link add far type veth peer name in netns "+b)
	testnet.Run(t, "ip netns exec "+r+" sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.forwarding=1")
	for _, a := range []struct{ namespace, device, v6, v4 string }{
		{testnet.Other(""), "out", "2001:db8:1::1/64", "192.0.2.1/26"},
		{r, "near", "2001:db8:1::2/64", "192.0.2.2/26"},
		{r, "far", "2001:db8:2::1/64", "192.0.2.65/26"},
		{b, "in", "2001:db8:2::2/64", "192.0.2.66/26"},
	} {
		ip := "ip -n " + a.namespace
		testnet.Run(
			t,
			fmt.Sprintf(
				"%s addr add %s dev %s nodad; %s addr add %s dev %s; %s link set %s up",
				ip,
				a.v6,
				a.device,
				ip,
				a.v4,
				a.device,
				ip,
				a.device,
			),
		)
	}
	testnet.Run(t, "ip route add 2001:db8:2::/64 via 2001:db8:1::2; ip route add 192.0.2.64/26 via 192.0.2.2")
	testnet.Run(t, fmt.Sprintf("ip -n %s route add 2001:db8:1::/64 via 2001:db8:2::1; ip -n %s route add 192.0.2.0/26 via 192.0.2.65", b, b))
	setFar(t, far)
}

func setFar(t *testing.T, mtu int) {
	t.Helper()
	testnet.Run(t, fmt.Sprintf("ip -n %s link set far mtu %d", testnet.Other(router), mtu))
}

func lowerPath(t *testing.T) {
	t.Helper()
	testnet.Run(t, "ip link delete out; ip -n "+testnet.Other(router)+" link delete far")
}

// exportBeyond exports over UDP to a receiver beyond the router, until stop. The
// first options have arrived: neighbours are found.
func exportBeyond(t *testing.T, listen string) (r *receiver, x *Encoder, c *Sink, stop func()) {
	t.Helper()
	r, x = newReceiver(t), newEncoder(t)
	address := ""
	if err := testnet.DoIn(t, testnet.Other(beyond), func() error { address = r.udp(listen); return nil }); err != nil {
		t.Fatal(err)
	}
	c = newCollector(t, x, Config{Transport: UDP, Address: address})
	stop = run(c)
	waitFor(t, "the first options", func() bool { return len(r.options()) > 0 })
	return r, x, c, stop
}

var farEnds = []struct {
	address string
	headers int
}{{"[2001:db8:2::2]:0", 48}, {"192.0.2.66:0", 28}}

// A link beyond a router with a smaller MTU than ours costs no record, and everything
// that passes it can be decoded.
func TestPathMTUBehindRouter(t *testing.T) {
	if !testnet.Process(t, router, beyond) {
		return
	}
	for _, end := range farEnds {
		raisePath(t, 1300)
		r, x, c, stop := exportBeyond(t, end.address)
		p, templates, began := postcard(t), r.templates(), time.Now()
		offer(x, c, p, 20) // two messages, one of them too big
		waitFor(t, "receiving", func() bool { return r.records() == 20 })
		if took := time.Since(began); took > patience.Of(time.Second) {
			t.Errorf("%s: the first records took %v", c.config.Address, took)
		}
		waitFor(t, "the templates again", func() bool { return r.templates() >= 2*templates })
		offer(x, c, p, 2000)
		waitFor(t, "receiving", func() bool { return r.records() == 2020 })
		if n := r.longest(0); n > 1300-end.headers || n <= 1300-end.headers-130 {
			t.Errorf("%s: messages of up to %d octets", c.config.Address, n)
		}
		stop()
		r.close()
		// Lost messages have Sequence Numbers, too.
		if s := check(t, c); s.Written != 2020 || s.Missed() != 0 || r.records() != 2020 || r.missed == 0 || r.missed > 20 {
			t.Errorf("%s: received %d, missed %d, of %+v", c.config.Address, r.records(), r.missed, s)
		}
		lowerPath(t)
	}
}

// Messages in flight when the MTU of a link beyond a router shrinks are sent again, and
// none twice.
func TestPathMTUFallsBehindRouter(t *testing.T) {
	if !testnet.Process(t, router, beyond) {
		return
	}
	for _, end := range farEnds {
		raisePath(t, 1500)
		r, x, c, stop := exportBeyond(t, end.address)
		p, offered := postcard(t), 0
		for _, far := range []int{1500, 1400, 1300} {
			setFar(t, far)
			// A busy machine sends less in that time than the messages that are looked at in the end.
			for began, before := time.Now(), offered; time.Since(began) < 500*time.Millisecond || offered-before < 2400; offered += 20 {
				offer(x, c, p, 20)
				time.Sleep(200 * time.Microsecond)
			}
		}
		waitFor(t, "receiving", func() bool { return r.records() >= offered })
		stop()
		r.close()
		if n := r.longest(r.count() - 100); n > 1300-end.headers {
			t.Errorf("%s: messages of up to %d octets", c.config.Address, n)
		}
		if s := check(t, c); int(s.Written) != offered || s.Missed() != 0 || r.records() != offered || r.missed == 0 {
			t.Errorf("%s: received %d, missed %d, of %+v", c.config.Address, r.records(), r.missed, s)
		}
		t.Logf("%s: offered %d, sent in vain %d", c.config.Address, offered, r.missed)
		lowerPath(t)
	}
}
