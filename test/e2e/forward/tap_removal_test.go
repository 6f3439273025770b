// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// A virtual machine's tap tells beside a frame where its open checksum is. What
// XDP cuts out of the frame would make that wrong: there, headers are removed in
// tc, and the checksum is closed where it belongs.
func TestTapOfVirtualMachineRemoves(t *testing.T) {
	t.Parallel()
	tc := string(e2e.TCModes()[0])
	l, in, out := raiseTaps(t, fastChain, unix.IFF_VNET_HDR, tc)
	warnsOfTap(t, l, health.XDPFallback)
	whole := toPort("2001:db8:2::2")
	open, at := openChecksum(whole)
	trace := ioam.Trace{Namespace: 456, NodeLen: 1, Type: 0x800000, RemainingLen: 2, Data: make([]byte, 8)}
	header, err := ioam.AppendExtensionHeader(nil, 17, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	sent := slices.Concat(open[:40], header, open[40:])
	sent[6] = 0
	binary.BigEndian.PutUint16(sent[4:], uint16(len(sent)-40))
	frame := in.frame(linkAddress(t, l.Node("router"), "eth0"), sent, uint16(40+len(header)), at)
	if _, err := in.file.Write(frame); err != nil {
		t.Fatalf("the tap does not take it: %v", err)
	}
	e2e.Await(t, "the header's removal", 5*time.Second, func() bool {
		return e2e.StatusInterface(t, l, "router", "eth0").Ingress["inline_removed"] == 1
	})
	came := passTaps(t, l, in, out, nil)[1]
	whole[7]--
	if len(came) != 1 || !bytes.Equal(came[0][14:], whole) {
		t.Errorf("it came as\n%swant\n%s", dump(came), hex.Dump(whole))
	}
}
