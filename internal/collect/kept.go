// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/waymark-net/waymark/internal/socketdrops"
)

// Keeper keeps sockets open while no collector runs, so that exporters are not refused and what they send waits in the
// kernel. Several sockets may have one name.
type Keeper interface {
	Inherited(name string) []*os.File // of before; the caller closes them
	Keep(name string, socket syscall.RawConn)
	Remove(name string)
	RemoveRest() // closes those that were inherited and not asked for
}

// noKeeper keeps nothing.
type noKeeper struct{}

func (noKeeper) Inherited(string) []*os.File  { return nil }
func (noKeeper) Keep(string, syscall.RawConn) {}
func (noKeeper) Remove(string)                {}
func (noKeeper) RemoveRest()                  {}

// keptName is the name of an endpoint's sockets, without a colon.
func (e Endpoint) keptName() string {
	scheme, rest, _ := strings.Cut(e.String(), "://")
	if e.TLS {
		scheme = "tcp" // whoever accepts a connection decides about TLS
	}
	return scheme + " " + strings.ReplaceAll(rest, ":", "_")
}

// inherit takes over the sockets that were kept of an endpoint, and returns how many. More than there
// would be readers are all read: each has datagrams of its own.
func (d *datagrams) inherit(e Endpoint) int {
	keeper := d.receiving.config.Keeper
	wrong := false
	for _, f := range keeper.Inherited(e.keptName()) {
		packets, err := net.FilePacketConn(f)
		f.Close()
		if err != nil {
			wrong = true
			continue
		}
		conn, ok := packets.(*net.UDPConn)
		if !ok || conn.LocalAddr().(*net.UDPAddr).AddrPort() != e.Address {
			wrong = true
			packets.Close()
			continue
		}
		wrong = !d.takeOver(conn, e) || wrong
	}
	if wrong { // one that is kept and not read would get its part of the datagrams
		keeper.Remove(e.keptName())
		for _, s := range d.sockets {
			keeper.Keep(e.keptName(), s.raw)
		}
	}
	return len(d.sockets)
}

// takeOver adds a socket that was kept, or closes it if it cannot be used.
func (d *datagrams) takeOver(conn *net.UDPConn, e Endpoint) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return false
	}
	size, err := d.receiving.prepare(raw)
	if err != nil {
		conn.Close()
		return false
	}
	s, err := d.add(conn, e, size)
	if err != nil {
		return false
	}
	s.dropped, _ = socketdrops.Total(raw) // before this collector; numbers of messages tell what is missing
	return true
}

// inheritStream is the TCP socket that was kept of an endpoint; nil: none.
func (c *receiving) inheritStream(e Endpoint) (found *net.TCPListener) {
	list := c.config.Keeper.Inherited(e.keptName())
	for _, f := range list {
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			continue
		}
		if tcp, ok := l.(*net.TCPListener); ok && found == nil && tcp.Addr().(*net.TCPAddr).AddrPort() == e.Address {
			found = tcp
			continue
		}
		l.Close()
	}
	if len(list) > 0 && found == nil {
		c.config.Keeper.Remove(e.keptName())
	}
	return found
}

// keepStream lets connections wait while no collector runs.
func (c *receiving) keepStream(e Endpoint, l *net.TCPListener) {
	if e.Address.Port() == 0 {
		return
	}
	if raw, err := l.SyscallConn(); err == nil {
		c.config.Keeper.Keep(e.keptName(), raw)
	}
}
