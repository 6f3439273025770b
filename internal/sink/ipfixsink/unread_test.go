// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/testnet"
)

// unread counts all records of the last octets and few others, in not many parts.
func TestUnread(t *testing.T) {
	for _, room := range []uint64{1, 5000, 1 << 20} {
		u := unread{room: room}
		var all []part
		for range 5000 {
			m := part{1 + rand.Uint64N(16384), rand.Uint64N(200)}
			all = append(all, m)
			u.add(m.octets, m.records)
			var octets, records, least uint64
			for i := len(all) - 1; i >= 0 && octets < room+room/unreadParts+2*16384; i-- {
				if octets < room {
					least += all[i].records
				}
				octets += all[i].octets
				records += all[i].records
			}
			if u.sum.records < least || u.sum.records > records || len(u.parts) > unreadParts+2 {
				t.Fatalf("room %d, %d messages: %d records in %d parts, want %d to %d", room, len(all), u.sum.records, len(u.parts), least, records)
			}
		}
	}
	var none unread
	if none.add(100, 7); none.sum.records != 0 || none.parts != nil {
		t.Errorf("without room: %+v", none)
	}
}

// smallReceiver listens with a receive buffer of a fixed number of octets.
func smallReceiver(t *testing.T, octets int) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if outer := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, octets)
		}); outer != nil {
			return outer
		}
		return err
	}}
	l, err := config.Listen(context.Background(), "tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Records that a collector's host acknowledged and the collector never read are written
// and unsure; those that it must have read are not unsure.
func TestCollectorDiesUnread(t *testing.T) {
	const buffer = 64 << 10
	for _, reads := range []int{0, 5000} {
		l := smallReceiver(t, buffer)
		x := newEncoder(t)
		c := newCollector(t, x, Config{Transport: TCP, Address: l.Addr().String(), MessageSize: 1400})
		stop := run(c)
		r := newReceiver(t)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		session := r.open(ipfix.TCP, conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort())
		offer(x, c, postcard(t), reads+5000)
		for r.records() < reads {
			b, err := ipfix.ReadMessage(conn, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.decodeMessage(session, b)
		}
		written := uint64(0)
		waitFor(t, "filling its host's buffer", func() bool {
			before := written
			time.Sleep(50 * time.Millisecond)
			written = c.Stats().Written
			return written == before && written > uint64(r.records())
		})
		l.Close()
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
		waitFor(t, "noticing it", func() bool { return c.Stats().Unsure > 0 })
		s, received := c.Stats(), uint64(r.records())
		if s.Written < received || s.Written > received+s.Unsure {
			t.Errorf("received %d of %+v", received, s)
		}
		if room := uint64(8 * buffer); reads > 0 && s.Unsure > room/100 { // the kernel doubles it, and its scale has room for twice that
			t.Errorf("%d records are unsure of those in %d octets", s.Unsure, room)
		}
		t.Logf("received %d of %+v", received, s)
		stop()
		check(t, c)
	}
}

// A collector that closes in order has read everything.
func TestCollectorEndsInOrder(t *testing.T) {
	r, x := newReceiver(t), newEncoder(t)
	c := newCollector(t, x, Config{Transport: TCP, Address: r.listen(TCP, "[::1]:0")})
	stop := run(c)
	offer(x, c, postcard(t), 1000)
	waitFor(t, "sending all", func() bool { return c.Stats().Written == 1000 })
	r.shutdown()
	waitFor(t, "noticing it", func() bool { return !c.Stats().Connected })
	stop()
	if s := check(t, c); s.Unsure != 0 || r.records() != 1000 {
		t.Errorf("received %d of %+v", r.records(), s)
	}
}

// A queue of our own device that is full makes the exporter wait. It ends no
// session and costs no record.
func TestFullDeviceQueue(t *testing.T) {
	if !testnet.Process(t, router, beyond) {
		return
	}
	onOneCPU(t)
	for _, end := range farEnds {
		raisePath(t, 1500)
		// The queue has room for less than a socket's buffer, and cuts nothing.
		testnet.Run(t, "tc qdisc add dev out root tbf rate 40mbit burst 80k limit 100k")
		r, x, c, stop := exportBeyond(t, end.address)
		p := postcard(t)
		offer(x, c, p, 20000)
		waitFor(t, "receiving", func() bool { return r.records() == 20000 })
		stop()
		r.close()
		if s := check(t, c); s.Written != 20000 || r.records() != 20000 || r.missed != 0 || r.decoder.Sessions() != 1 {
			t.Errorf("%s: received %d, missed %d, in %d sessions, of %+v", c.config.Address, r.records(), r.missed, r.decoder.Sessions(), s)
		}
		lowerPath(t)
	}
}

// onOneCPU keeps all threads of this process, and those to come, on one CPU: a
// sender that moves between CPUs may send datagrams out of order.
func onOneCPU(t *testing.T) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !one.IsSet(first) {
		first++
	}
	one.Zero()
	one.Set(first)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(id, &one); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}
