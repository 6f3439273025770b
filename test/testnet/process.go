// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/vishvananda/netns"
)

// variable holds the namespace of a test that Process runs again.
const variable = "WAYMARK_TEST_NAMESPACE"

// Process runs a test again as a process in a namespace of its own, which
// everything it starts shares. It also makes a namespace for each of others. It
// returns true in the new process.
func Process(t *testing.T, others ...string) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	NeedRoot(t)
	name := fmt.Sprintf("wm-test-%d", os.Getpid())
	for _, other := range append([]string{""}, others...) {
		Run(t, "ip netns add "+name+other)
		defer Run(t, "ip netns delete "+name+other)
	}
	cmd := exec.Command("ip", "netns", "exec", name, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+name)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
	return false
}

// Other returns the name of one of the other namespaces of Process.
func Other(other string) string { return os.Getenv(variable) + other }

// DoIn runs f in a named namespace, as Do does.
func DoIn(t testing.TB, name string, f func() error) error {
	t.Helper()
	handle, err := netns.GetFromName(name)
	if err != nil {
		t.Fatalf("open the network namespace %s: %v", name, err)
	}
	n := &Namespace{handle}
	defer n.Close()
	return n.Do(f)
}
