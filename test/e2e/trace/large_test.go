// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// transferTo sends bytes from alpha to an address of beta, and compares what
// arrived.
func transferTo(t *testing.T, l *lab.Lab, address string, size int) {
	t.Helper()
	var listener net.Listener
	if err := e2e.Bind(l.Node("beta"), func() (err error) {
		listener, err = net.Listen("tcp6", net.JoinHostPort(address, "9001"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var conn net.Conn
	if err := l.Node("alpha").Do(func() (err error) {
		conn, err = (&net.Dialer{Timeout: patience.Of(10 * time.Second), FallbackDelay: -1}).Dial("tcp6", listener.Addr().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(content)
		sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	end, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if err := end.SetDeadline(time.Now().Add(patience.Of(30 * time.Second))); err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, end)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatalf("after %d of %d bytes: %v", n, size, err)
	}
	if want := sha256.Sum256(content); [32]byte(sum.Sum(nil)) != want {
		t.Errorf("the transfer arrived changed: %d bytes sent, %d received", size, n)
	}
}

// allRemoved waits until aramis has removed every header that athos added,
// because hosts send packets of their own now and then; it returns their number.
func allRemoved(t *testing.T, counted *e2e.Counted, tt e2e.Transfer) (added uint64) {
	t.Helper()
	e2e.Await(t, "aramis has removed what athos added", 5*time.Second, func() bool {
		added = counted.Counter(t, "athos", tt.Added)
		return counted.Counter(t, "aramis", tt.Removed) == added
	})
	return added
}

// vxlan sends large VXLAN packets, which the kernel segments by the inner headers, across the domain
// without a trace; smaller ones get one.
func vxlan(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	counted := e2e.CountedFrom(t, l, domain...)
	for node, ends := range map[string][3]string{
		"alpha": {"2001:db8:1::2", "2001:db8:2::2", "2001:db8:9::1/64"},
		"beta":  {"2001:db8:2::2", "2001:db8:1::2", "2001:db8:9::2/64"},
	} {
		n := l.Node(node)
		e2e.Must(
			t,
			n,
			"ip",
			"link",
			"add",
			"vx0",
			"type",
			"vxlan",
			"id",
			"7",
			"local",
			ends[0],
			"remote",
			ends[1],
			"dstport",
			"4789",
			"dev",
			"eth0",
		)
		e2e.Must(t, n, "ip", "addr", "add", ends[2], "dev", "vx0", "nodad")
		e2e.Must(t, n, "ip", "link", "set", "vx0", "mtu", "1430", "up")
		t.Cleanup(func() { e2e.MustAfter(t, n, "ip", "link", "del", "vx0") })
	}
	beta := e2e.StartScan(t, l, "beta", "eth0")
	transferTo(t, l, "2001:db8:9::2", 16<<20)
	beta.Stop(t)
	skipped, added := counted.Counter(t, "athos", "encap_skipped_gso"), allRemoved(t, counted, tt)
	t.Logf("athos skipped %d large packets and marked %d", skipped, added)
	if skipped < 100 || added == 0 {
		t.Errorf("athos skipped %d large packets and marked %d, want most of the transfer skipped, and its beginning marked", skipped, added)
	}
	counted.Check(t, "aramis", map[string]uint64{"decap_failed": 0})
	if n := beta.IOAMBytes.Load(); n > 0 {
		t.Errorf("beta received %d bytes of IOAM", n)
	}
}

// bigTCP sends TCP packets beyond 64 KiB, whose length is in a jumbo option: they go on without a
// trace, and the kernel segments them.
func bigTCP(t *testing.T, l *lab.Lab, tt e2e.Transfer) {
	t.Helper()
	counted := e2e.CountedFrom(t, l, domain...)
	e2e.Must(t, l.Node("alpha"), "ip", "link", "set", "eth0", "gso_max_size", "180000")
	t.Cleanup(func() { e2e.MustAfter(t, l.Node("alpha"), "ip", "link", "set", "eth0", "gso_max_size", "65536") })
	before, beta := e2e.StartScan(t, l, "athos", "eth0"), e2e.StartScan(t, l, "beta", "eth0")
	for range 5 { // on a busy machine, a whole transfer may have no packet that long
		if transferTo(t, l, "2001:db8:2::2", 32<<20); before.Longest.Load() > 1<<16 {
			break
		}
	}
	before.Stop(t)
	beta.Stop(t)
	skipped := counted.Counter(t, "athos", "encap_skipped_gso") + counted.Counter(t, "athos", "encap_skipped_jumbo")
	added := counted.Settled(t, "athos", tt.Added)
	t.Logf("athos skipped %d packets and marked %d; the longest has %d bytes", skipped, added, before.Longest.Load())
	if before.Longest.Load() <= 1<<16 {
		t.Fatalf("the longest packet to athos has %d bytes; want more than 64 KiB", before.Longest.Load())
	}
	if skipped == 0 || added == 0 {
		t.Errorf("athos skipped %d packets and marked %d, want both", skipped, added)
	}
	counted.Check(t, "aramis", map[string]uint64{"decap_failed": 0, "removal_partial": 0, "boundary_dropped": 0})
	if n := beta.IOAMBytes.Load(); n > 0 {
		t.Errorf("beta received %d bytes of IOAM", n)
	}
}
