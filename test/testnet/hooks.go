// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"os"
	"strings"
	"testing"
)

// HooksSwitch is a switch of the machine that cannot be unset until it boots again. While it is set,
// agents leave packets with SRv6 behaviours to the stack, so tests that expect them in XDP fail.
const HooksSwitch = "net.netfilter.nf_hooks_lwtunnel"

// readHooks reads the switch; tests replace it.
var readHooks = func() ([]byte, error) { return os.ReadFile("/proc/sys/net/netfilter/nf_hooks_lwtunnel") }

// NameHooks makes a test that fails name the switch if it is set. NeedRoot calls it.
func NameHooks(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			if why := HooksSet(); why != "" {
				t.Log(why)
			}
		}
	})
}

// HooksSet says what the switch does, "" if it is not set.
func HooksSet() string {
	text, err := readHooks()
	if value := strings.TrimSpace(string(text)); err != nil || value == "0" {
		return ""
	}
	return HooksSwitch + " is set on this machine: no SRv6 behaviour is done in XDP, so tests that expect it fail; " +
		"the switch cannot be unset, boot the machine again"
}
