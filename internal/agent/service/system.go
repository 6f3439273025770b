// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pathmtu"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/routing"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/internal/tunnelerror"
	"github.com/waymark-net/waymark/ioam"
)

// System is what the agent needs from the machine and its network namespace.
type System interface {
	config.Host
	// WatchLinks calls changed whenever an interface appears, changes or
	// vanishes, and once when it begins to watch, until the context ends.
	WatchLinks(ctx context.Context, changed func()) error
	// WatchFilters calls changed with the interface whenever a queueing discipline or a
	// filter changes, until the context ends.
	WatchFilters(ctx context.Context, changed func(model.IfIndex)) error
	// WatchTooBig calls heard with each ICMPv6 Packet Too Big message that
	// arrives, from its ICMPv6 header on, until the context ends; listening,
	// once it begins. lost counts those that found no room.
	WatchTooBig(ctx context.Context, lost *socketdrops.Counter, listening func(), heard func(message []byte)) error
	// WatchTunnelErrors calls heard with each ICMPv6 error that arrives, and with a
	// function that sends a packet with any source, until the context ends; listening,
	// once it begins. lost counts those that found no room.
	WatchTunnelErrors(
		ctx context.Context,
		lost *socketdrops.Counter,
		listening func(),
		heard func(m icmpv6.Message, send func(packet []byte) error),
	) error
	// OpenSender opens a socket for whole packets with any source address.
	OpenSender() (PacketSender, error)
	// WatchRoutes keeps the plane up to date with what determines the kernel's
	// forwarding, until the context ends. explain gets why the stack forwards all
	// packets, "" when it does not.
	WatchRoutes(ctx context.Context, plane routing.Plane, explain func(why string), log *slog.Logger) error
	// WatchKernelEvents calls heard with each trace that the kernel's own IOAM
	// has filled, until the context ends; listening, once it begins.
	WatchKernelEvents(ctx context.Context, count *kernelevents.Counters, listening func(), heard func(ioam.Trace)) error
	Clock() (health.Clock, error)
	// Forwards reports whether this node forwards packets of others.
	Forwards() bool
	// InterfaceHealth reads what the health checks need.
	InterfaceHealth(name string, mtu int) health.Interface
	// NoRoute says why an address cannot be reached, "" when it can.
	NoRoute(dst netip.Addr) string
	// OwnAddresses reads this node's addresses; the result reports whether an address
	// was one of them.
	OwnAddresses() func(netip.Addr) bool
}

// PacketSender sends whole IPv6 packets by the kernel's routes.
type PacketSender interface {
	Send(packet []byte) error
	Close() error
}

// Kernel is the System of the network namespace that this process runs in.
type Kernel struct{}

func (Kernel) Link(name string) (config.Link, bool, error) {
	l, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return config.Link{}, false, nil
	case err != nil:
		return config.Link{}, false, err
	}
	a := l.Attrs()
	return config.Link{Index: model.IfIndex(a.Index), MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0, Alias: a.Alias}, true, nil
}

// listTries is how often a list is read again when it changes meanwhile.
const listTries = 5

func (Kernel) Devices() ([]config.Device, error) {
	links, err := netlink.LinkList()
	for range listTries {
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
		links, err = netlink.LinkList()
	}
	if err != nil {
		return nil, err
	}
	var devices []config.Device
	for _, l := range links {
		a := l.Attrs()
		d := config.Device{Index: model.IfIndex(a.Index), Master: model.IfIndex(a.MasterIndex), Bridge: l.Type() == "bridge"}
		if l.Type() == "vlan" && a.NetNsID < 0 { // else the index below is another namespace's
			d.Lower = model.IfIndex(a.ParentIndex)
		}
		if d.Master != 0 || d.Lower != 0 || d.Bridge {
			devices = append(devices, d)
		}
	}
	return devices, nil
}

func (Kernel) NodeID() (ioam.NodeID, error) {
	return sysctl("ioam6_id", 24, ioam.NodeIDUnavailable)
}

func (Kernel) NodeIDWide() (ioam.NodeIDWide, error) {
	return sysctl("ioam6_id_wide", 56, ioam.NodeIDWideUnavailable)
}

func (Kernel) InterfaceID(name string) (ioam.InterfaceID, error) {
	return sysctl(filepath.Join("conf", name, "ioam6_id"), 16, ioam.InterfaceIDUnavailable)
}

func (Kernel) InterfaceIDWide(name string) (ioam.InterfaceIDWide, error) {
	return sysctl(filepath.Join("conf", name, "ioam6_id_wide"), 32, ioam.InterfaceIDWideUnavailable)
}

func (Kernel) StackOptions() (int, error) {
	text, err := readSysctl("max_hbh_opts_number")
	if errors.Is(err, os.ErrNotExist) {
		return model.StackOptions, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("net.ipv6.max_hbh_opts_number: %w", err)
	}
	return max(n, 0), nil // with a negative number, the stack also drops options that it does not know: it decides
}

// sysctl reads a number below net.ipv6. A kernel built without IOAM, or an
// interface without IPv6, has no such setting: its value is the kernel's
// default.
func sysctl[T ~uint16 | ~uint32 | ~uint64](name string, bits int, absent T) (T, error) {
	text, err := readSysctl(name)
	if errors.Is(err, os.ErrNotExist) {
		return absent, nil
	}
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("net.ipv6.%s: %w", name, err)
	}
	return T(v), nil
}

func readSysctl(name string) (string, error) {
	path := filepath.Join("/proc/sys/net/ipv6", name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.File costs several times as much, every second
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	var b [32]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimSpace(string(b[:n])), nil
}

func (Kernel) Forwards() bool {
	v, err := sysctl[uint16]("conf/all/forwarding", 16, 0)
	return err == nil && v != 0
}

// resubscribeDelay keeps a failing subscription from spinning.
const resubscribeDelay = time.Second

func (Kernel) WatchLinks(ctx context.Context, changed func()) error {
	for {
		if err := watchOnce(ctx, changed); err != nil {
			return fmt.Errorf("watch the interfaces: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resubscribeDelay):
		}
	}
}

// watchOnce watches until the context ends or the kernel's messages overrun the
// socket's buffer.
func watchOnce(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the library's goroutine closes the socket
	updates := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return err
	}
	changed()           // for changes before the subscription
	for range updates { // until the library has closed it
		changed()
	}
	return nil
}

func (Kernel) WatchTooBig(ctx context.Context, lost *socketdrops.Counter, listening func(), heard func([]byte)) error {
	l, err := pathmtu.Listen()
	if err != nil {
		return err
	}
	defer l.Close()
	lost.Begin(l.Dropped)
	defer lost.End()
	listening()
	return l.Read(ctx, func(m icmpv6.Message) { heard(m.Body) })
}

func (Kernel) WatchTunnelErrors(
	ctx context.Context,
	lost *socketdrops.Counter,
	listening func(),
	heard func(icmpv6.Message, func([]byte) error),
) error {
	sender, err := icmpv6.NewSender()
	if err != nil {
		return err
	}
	defer sender.Close()
	l, err := tunnelerror.Listen()
	if err != nil {
		return err
	}
	defer l.Close()
	lost.Begin(l.Dropped)
	defer lost.End()
	listening()
	return l.Read(ctx, func(m icmpv6.Message) { heard(m, sender.Send) })
}

func (Kernel) OpenSender() (PacketSender, error) { return icmpv6.NewSender() }

func (Kernel) WatchRoutes(ctx context.Context, plane routing.Plane, explain func(why string), log *slog.Logger) error {
	return routing.Watch(ctx, plane, explain, log)
}

func (Kernel) WatchKernelEvents(ctx context.Context, count *kernelevents.Counters, listening func(), heard func(ioam.Trace)) error {
	return kernelevents.Watch(ctx, kernelevents.DefaultBuffer, count, listening, heard)
}

func (Kernel) Clock() (health.Clock, error) { return health.ReadClock() }

func (Kernel) InterfaceHealth(name string, mtu int) health.Interface {
	return health.ReadInterface(name, mtu)
}

func (Kernel) OwnAddresses() func(netip.Addr) bool { return health.OwnAddresses() }

func (Kernel) NoRoute(dst netip.Addr) string { return health.NoRoute(dst) }

func (Kernel) ProofKey(file string) (*pot.Key, error) { return pot.Read(file) }

// lookupTime is how long a name lookup may take.
const lookupTime = time.Second

// Peers are those of a running agent.
func (Kernel) Peers() []model.Collector { return nil }

func (Kernel) Addresses(name string) []netip.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil { // it is looked up again
		return nil
	}
	return found
}

// TunnelSource is the source that an agent in this network namespace gives to a
// tunnel whose configuration has none.
func TunnelSource(to netip.Addr) (netip.Addr, error) { return config.SourceOf(Kernel{}, to) }

func (Kernel) SourceTo(dst netip.Addr) (netip.Addr, error) {
	routes, err := netlink.RouteGet(dst.AsSlice())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no route to %s: %w", dst, err)
	}
	for _, r := range routes {
		if src, ok := netip.AddrFromSlice(r.Src); ok {
			return src, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the route to %s names no source address", dst)
}
