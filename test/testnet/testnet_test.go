// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
)

// names are the links that the caller sees.
func names() (out []string, err error) {
	links, err := netlink.LinkList()
	for _, l := range links {
		out = append(out, l.Attrs().Name)
	}
	return out, err
}

// Namespaces are isolated from each other, and a test returns to its own.
func TestNamespaces(t *testing.T) {
	one, other := New(t), New(t)
	before, err := names()
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Do(func() error {
		AddVeth(t, "a", "b", 1600)
		SetUp(t, "b")
		SetUp(t, "a", "2001:db8::1/64")
		c, err := net.ListenPacket("udp6", "[2001:db8::1]:9")
		if err == nil {
			err = c.Close()
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	for n, want := range map[*Namespace]int{one: 3, other: 1} {
		var inside []string
		if err := n.Do(func() (err error) { inside, err = names(); return err }); err != nil || len(inside) != want {
			t.Errorf("links %v, want %d (%v)", inside, want, err)
		}
	}
	if after, err := names(); err != nil || len(after) != len(before) {
		t.Errorf("the test's own namespace has the links %v, had %v (%v)", after, before, err)
	}
	wrong := errors.New("wrong")
	if err := one.Do(func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("an error became %v", err)
	}
}

// After Enter, a test works in the new namespace.
func TestEnter(t *testing.T) {
	n := Enter(t)
	Run(t, "ip link add v0 type veth peer name v1; ip link set v0 up")
	Set(t, "ipv6/conf/v0/hop_limit", "7")
	if inside, err := names(); err != nil || len(inside) != 3 {
		t.Errorf("after Enter, links are %v (%v)", inside, err)
	}
	Alone(t, func() {
		if inside, err := names(); err != nil || len(inside) != 1 {
			t.Errorf("in Alone, links are %v (%v)", inside, err)
		}
	})
	if err := n.Do(func() error { _, err := netlink.LinkByName("v0"); return err }); err != nil {
		t.Error(err)
	}
}
