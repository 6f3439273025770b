// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/test/testnet"
)

// 'via' without 'dev' finds the interface by the kernel's routes, and refuses what is no neighbour.
func TestViaFindsInterface(t *testing.T) {
	testnet.Enter(t)
	testnet.AddVeth(t, "near0", "far0", 1500)
	testnet.AddVeth(t, "near1", "far1", 1500)
	testnet.SetUp(t, "lo")
	for name, address := range map[string]string{"near0": "2001:db8:10::1/64", "near1": "2001:db8:11::1/64", "far0": "", "far1": ""} {
		if address == "" {
			testnet.SetUp(t, name)
		} else {
			testnet.SetUp(t, name, address)
		}
	}
	testnet.Run(t, "ip -6 route add 2001:db8:20::/64 via 2001:db8:10::2")
	instance, err := api.Here()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(instance.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(instance.Dir) })
	f := serveFakeAgent(t, instance.Socket(), nil)
	for _, tt := range []struct{ via, device, refused string }{
		{"2001:db8:10::2", "near0", ""},
		{"2001:db8:11::2", "near1", ""},
		{"2001:db8:20::1", "", "it is no neighbour, but behind 2001:db8:10::2 on near0; name the neighbour, or dev near0"},
		{"2001:db8:10::1", "", "it is an address of this node"},
		{"2001:db8:30::1", "", "there is no route to it"},
	} {
		f.asked = nil
		code, _, stderr := runCLI(t, "", strings.Fields("route add 2001:db8:9::/64 encap ioam6 mode encap tundst 2001:db8::3 "+
			"trace prealloc type 0x800000 ns 123 size 12 via "+tt.via)...)
		if tt.refused != "" {
			if code != commandline.ExitFailure || !strings.Contains(stderr, "via "+tt.via+": "+tt.refused) || f.last() != "" {
				t.Errorf("via %s: code %d, %s, asked %s", tt.via, code, stderr, f.last())
			}
			continue
		}
		if asked := f.last(); code != commandline.ExitOK || !strings.HasPrefix(asked, "POST /v1/encapsulations") ||
			!strings.Contains(asked, `"interface":"`+tt.device+`"`) {
			t.Errorf("via %s: code %d, %s, asked %s", tt.via, code, stderr, asked)
		}
	}
}
