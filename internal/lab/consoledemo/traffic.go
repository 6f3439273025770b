// SPDX-License-Identifier: Apache-2.0

package consoledemo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// stream is a flow of datagrams from alpha to beta: a burst at a time.
type stream struct {
	to    netip.AddrPort
	burst int
	every time.Duration
	size  int
}

// moving are the packets that take another path every minute.
var moving = netip.MustParseAddr("2001:db8:2::b")

// streams are all flows. Those to 2001:db8:2::2 are spread over both paths by their ports.
var streams = []stream{
	{netip.MustParseAddrPort("[2001:db8:2::2]:443"), 3, 100 * time.Millisecond, 900},
	{netip.MustParseAddrPort("[2001:db8:2::2]:5001"), 3, 150 * time.Millisecond, 600},
	{netip.MustParseAddrPort("[2001:db8:2::2]:5002"), 2, 100 * time.Millisecond, 300},
	{netip.MustParseAddrPort("[2001:db8:2::2]:5003"), 4, 200 * time.Millisecond, 1200},
	{netip.MustParseAddrPort("[2001:db8:2::2]:5004"), 2, 120 * time.Millisecond, 700},
	{netip.MustParseAddrPort("[2001:db8:2::2]:5005"), 1, 100 * time.Millisecond, 200},
	{netip.AddrPortFrom(moving, 443), 2, 100 * time.Millisecond, 500},
	{netip.MustParseAddrPort("[2001:db8:21::2]:9001"), 5, 50 * time.Millisecond, 200},
	{netip.MustParseAddrPort("[2001:db8:22::2]:9002"), 5, 50 * time.Millisecond, 200},
}

// firstPort is the source port of the first stream: the same ports take the same paths in each run.
const firstPort = 40001

// startTraffic sends all streams until the context ends.
func (d *demo) startTraffic(ctx context.Context, group *errgroup.Group) error {
	from, ok := d.lab.Topology().Address(sender)
	if !ok {
		return fmt.Errorf("%s has no address", sender)
	}
	for i, s := range streams {
		var in, out *net.UDPConn
		err := d.lab.Node(target).Do(func() (err error) {
			in, err = net.ListenUDP("udp6", net.UDPAddrFromAddrPort(s.to))
			return err
		})
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { in.Close() })
		err = d.lab.Node(sender).Do(func() (err error) {
			local := netip.AddrPortFrom(from, firstPort+uint16(i))
			out, err = net.DialUDP("udp6", net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(s.to))
			return err
		})
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { out.Close() })
		group.Go(func() error { return receive(ctx, in) })
		group.Go(func() error { return s.send(ctx, out) })
	}
	return nil
}

// receive takes what comes.
func receive(ctx context.Context, in *net.UDPConn) error {
	buffer := make([]byte, 2048)
	for {
		if _, err := in.Read(buffer); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// send sends the bursts of a stream.
func (s stream) send(ctx context.Context, out *net.UDPConn) error {
	payload := make([]byte, s.size)
	for tick := time.NewTicker(s.every); ; {
		for range s.burst {
			_, err := out.Write(payload)
			if ctx.Err() != nil {
				tick.Stop()
				return nil
			}
			if err != nil && !errors.Is(err, unix.ENOBUFS) {
				return fmt.Errorf("send to %v: %w", s.to, err)
			}
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// ways are the next hops at athos, by porthos and by dartagnan.
var ways = []string{"2001:db8:12::2", "2001:db8:14::2"}

// movePaths gives the moving packets another next hop at the begin of each period, which is that of a window
// in which the collector compares paths.
func (d *demo) movePaths(ctx context.Context) error {
	every := d.options.Move
	for {
		now := time.Now().UnixNano()
		period := now / int64(every)
		way := ways[period%int64(len(ways))]
		if err := d.run(ctx, entry, "ip", "-6", "route", "replace", moving.String()+"/128", "via", way); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration((period+1)*int64(every) - now)):
		}
	}
}
