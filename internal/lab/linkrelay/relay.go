// SPDX-License-Identifier: Apache-2.0

package linkrelay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab/linkloss"
)

const (
	tapQueue   = 32768                 // frames that the kernel holds for the loop
	mostFrames = 65536                 // and the queue
	mostOctets = 128 << 20             // of them
	sendBuffer = 4 << 20               // octets
	lastFrames = 50 * time.Millisecond // in which programs that saw the detour have ended
	renewal    = linkloss.DetourLease / 8
)

// Relay is a loop that holds the frames of an interface.
type Relay struct {
	rule    Rule
	tap     int
	name    string // of the tap
	link    int    // packet socket of the device
	detour  *linkloss.Detour
	queue   *queue
	started time.Time
	ending  atomic.Bool
	ended   chan error
}

// Start diverts frames of an interface in the network namespace of the calling thread.
func Start(device string, r Rule) (_ *Relay, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	l := &Relay{rule: r, tap: -1, link: -1, queue: newQueue(r), started: time.Now(), ended: make(chan error, 1)}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	index, err := l.openTap()
	if err != nil {
		return nil, fmt.Errorf("make a tap: %w", err)
	}
	if err := l.openLink(device); err != nil {
		return nil, fmt.Errorf("open %s: %w", device, err)
	}
	if l.detour, err = linkloss.StartDetour(device, r.Selection, index); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// openTap makes a tap on which the kernel sends nothing of its own.
func (l *Relay) openTap() (index int, err error) {
	if l.tap, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return 0, fmt.Errorf("open /dev/net/tun: %w (modprobe tun)", err)
	}
	request, err := unix.NewIfreq("relay%d")
	if err != nil {
		return 0, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(l.tap, unix.TUNSETIFF, request); err != nil {
		return 0, err
	}
	l.name = request.Name()
	link, err := netlink.LinkByName(l.name)
	if err != nil {
		return 0, err
	}
	return link.Attrs().Index, errors.Join(
		os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", l.name, "disable_ipv6"), []byte("1"), 0),
		netlink.LinkSetTxQLen(link, tapQueue), netlink.LinkSetUp(link))
}

// openLink opens a socket that sends past queues and programs of tc.
func (l *Relay) openLink(device string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	if l.link, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	return errors.Join(
		unix.SetsockoptInt(l.link, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
		unix.SetsockoptInt(l.link, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer),
		unix.Bind(l.link, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index}))
}

// run holds frames until Stop is called and all of them have gone on.
func (l *Relay) run() {
	runtime.LockOSThread() // never unlocked: the thread ends, with its timer slack
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	l.ended <- l.loop()
}

func (l *Relay) loop() error {
	var renewed, stopped time.Duration
	buffer := make([]byte, 1<<16)
	for {
		now := time.Since(l.started)
		l.send(now)
		switch {
		case stopped == 0 && l.ending.Load():
			if err := l.detour.Stop(); err != nil {
				return err
			}
			stopped = max(now, 1)
		case stopped == 0 && now-renewed > renewal:
			if err := l.detour.Renew(); err != nil {
				return err
			}
			renewed = now
		}
		room := len(l.queue.frames) < mostFrames && l.queue.octets < mostOctets
		read, err := 0, error(nil)
		if room {
			if read, err = l.read(buffer); err != nil {
				return err
			}
		}
		if stopped > 0 && read == 0 && len(l.queue.frames) == 0 && now-stopped > lastFrames {
			return nil
		}
		if read == 0 {
			if err := l.sleep(room); err != nil {
				return err
			}
		}
	}
}

// send sends what is due.
func (l *Relay) send(now time.Duration) {
	for data := l.queue.next(now); data != nil; data = l.queue.next(now) {
		if _, err := unix.Write(l.link, data); err != nil {
			l.queue.counts.Sent--
			l.queue.counts.NotSent++
		}
	}
}

// mostRead is how many frames are read before those that are due are sent.
const mostRead = 64

// read takes the frames that the tap has.
func (l *Relay) read(buffer []byte) (n int, err error) {
	for ; n < mostRead; n++ {
		size, err := unix.Read(l.tap, buffer)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			return n, nil
		case err != nil:
			return n, fmt.Errorf("read from %s: %w", l.name, err)
		}
		l.queue.add(time.Since(l.started), append([]byte(nil), buffer[:size]...))
	}
	return n, nil
}

// sleep waits for a frame, until one is due, or the detour must be renewed.
func (l *Relay) sleep(room bool) error {
	limit := renewal
	if l.ending.Load() {
		limit = time.Millisecond
	}
	if wait, ok := l.queue.wait(time.Since(l.started)); ok {
		limit = min(limit, wait)
	}
	poll := []unix.PollFd{{Fd: int32(l.tap), Events: unix.POLLIN}}
	if !room {
		poll[0].Events = 0
	}
	timeout := unix.NsecToTimespec(int64(limit))
	if _, err := unix.Ppoll(poll, &timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for frames of %s: %w", l.name, err)
	}
	return nil
}

// Failed has a value when the loop has ended by itself; Stop returns the error.
func (l *Relay) Failed() bool { return len(l.ended) > 0 }

// Stop lets frames take the link again and waits until those that are held have gone on.
func (l *Relay) Stop() (Counts, error) {
	l.ending.Store(true)
	err := <-l.ended
	l.ended <- err
	counts := l.queue.counts
	frames, packets, cerr := l.detour.Counts()
	counts.Frames, counts.Packets = frames, packets
	counts.NotRead = packets - min(packets, l.queue.number)
	return counts, errors.Join(err, cerr)
}

// Close removes what Start made, in the same network namespace, after Stop.
func (l *Relay) Close() error { return l.release() }

// release closes what Start opened.
func (l *Relay) release() (err error) {
	if l.detour != nil {
		err = l.detour.Close()
	}
	for _, fd := range []int{l.tap, l.link} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
