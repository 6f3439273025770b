// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// The packets that a reflector answers over the loopback interface while a sender on
// another CPU sends as many as it can: a second, and a second of the reflector's CPU.
func BenchmarkReflector(b *testing.B) {
	for _, bb := range []struct {
		name   string
		change func(*Config)
		tlvs   int
	}{
		{"stateless", nil, 0},
		{"stateful", func(c *Config) { c.Stateful = true }, 0},
		{"authenticated", func(c *Config) { c.Key = key }, 0},
		{"tlvs", func(c *Config) { c.Stateful = true }, 1},
	} {
		b.Run(bb.name, func(b *testing.B) { benchmark(b, bb.change, bb.tlvs > 0) })
	}
}

func benchmark(b *testing.B, change func(*Config), withTLVs bool) {
	r := newReflector(b, change)
	r.config.Local = netip.MustParseAddrPort("[::1]:0")
	r.now = r.clock.Now
	if err := r.Open(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	spent := make(chan time.Duration)
	go func() {
		runtime.LockOSThread()
		before := threadTime()
		if err := r.Run(ctx); err != nil {
			b.Error(err)
		}
		spent <- threadTime() - before
	}()
	s, err := udp.Listen(udp.Config{Local: netip.MustParseAddrPort("[::1]:0"), Batch: batch, Size: 64})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var tlvs []byte
	if withTLVs {
		tlvs = append(tlv(b, stamp.TypeClassOfService, 0, 0, 0, 0), tlv(b, stamp.TypeDirectMeasurement, make([]byte, 12)...)...)
	}
	list := make([]udp.Datagram, batch)
	for i := range list {
		list[i] = packet(b, r.mode, sent, r.config.Key, tlvs)
		list[i] = udp.Datagram{Data: list[i].Data, Peer: r.Local()}
	}
	reflected := func() int { return int(r.Counts().Outcomes[Reflected]) }
	b.ResetTimer()
	for reflected() < b.N {
		if err := s.Send(list); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	n := float64(reflected())
	cancel()
	b.ReportMetric(n/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(n/(<-spent).Seconds(), "packets/cpu-s")
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
