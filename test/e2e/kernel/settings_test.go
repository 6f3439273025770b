// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
)

const supported ioam.TraceType = 0xfff002

func clearKernel(t *testing.T, n *lab.Node) {
	t.Helper()
	err := n.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/ioam6_enabled", []byte("0"), 0) })
	if err != nil {
		t.Fatal(err)
	}
}
