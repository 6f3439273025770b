// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
)

// readers serves requests that only read to the members of a group, on a socket of its own. Its file is open to
// all, and the kernel says who is at the other end: so the agent need not give files to a group, for which it would
// need a capability.
type readers struct {
	service.Idle
	*core
	handler func() http.Handler

	mu     sync.Mutex
	group  string // "": only root reads
	gid    uint32
	fault  atomic.Pointer[string] // why the group cannot read; nil: it can
	server *http.Server
	gate   *gate
	served chan struct{}
}

const (
	// mostReaders bounds the connections of all readers together, and those of all that are refused.
	mostReaders = 64
	// mostOfUser bounds those of one user, so that none keeps others from reading.
	mostOfUser = 8
)

func newReaders(c *core, handler func() http.Handler) *readers {
	return &readers{core: c, handler: handler}
}

func (r *readers) Prepare(p *service.Plan) error {
	name := p.Next.Config.Node.ReadGroup
	gid := uint64(0)
	if name != "" {
		g, err := user.LookupGroup(name)
		if err == nil {
			gid, err = strconv.ParseUint(g.Gid, 10, 32)
		}
		if err != nil {
			return problem.Wrap(fmt.Errorf("node.read-group: %w", err), "create the group with: groupadd --system "+name)
		}
	}
	p.OnCommit(func() { r.follow(name, uint32(gid)) })
	return nil
}

// follow lets the members of a group read; without a group, root alone reads.
func (r *readers) follow(group string, gid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if group == r.group && gid == r.gid && r.fault.Load() == nil {
		return
	}
	r.stop()
	r.fault.Store(nil)
	if r.group, r.gid = group, gid; group == "" {
		return
	}
	if err := r.start(); err != nil {
		r.closeWay()
		r.fail(err)
	}
}

// fail notes why the group cannot read; the next reload tries again.
func (r *readers) fail(err error) {
	why := err.Error()
	r.fault.Store(&why)
	r.logWarning(readersWarning(why))
}

func readersWarning(why string) health.Warning {
	return health.New(health.ReadersUnserved, "", "the group of node.read-group cannot ask the agent: "+why,
		"remove the cause, and run: waymark agent reload")
}

func (r *readers) Warnings(*service.State) []health.Warning {
	if why := r.fault.Load(); why != nil {
		return []health.Warning{readersWarning(*why)}
	}
	return nil
}

// start opens the socket. The caller holds r.mu.
func (r *readers) start() error {
	instance := r.options.Instance
	l, err := listen(instance.ReadSocket())
	if err != nil {
		return err
	}
	// Only the names of files that one knows can be reached; each file has its own mode.
	for _, dir := range []string{filepath.Dir(instance.Dir), instance.Dir} {
		err = errors.Join(err, openWay(dir))
	}
	if err = errors.Join(err, os.Chmod(instance.ReadSocket(), 0o666)); err != nil {
		return errors.Join(err, l.Close())
	}
	r.gate = &gate{UnixListener: l.(*net.UnixListener), group: r.group, gid: r.gid, byUser: make(map[uint32]int)}
	r.server = &http.Server{Handler: onlyReading(r.handler()), ReadHeaderTimeout: readTimeout, IdleTimeout: readTimeout, ConnContext: ofConn}
	r.served = make(chan struct{})
	go func(server *http.Server, gate *gate, served chan struct{}) {
		defer close(served)
		if err := server.Serve(gate); !errors.Is(err, http.ErrServerClosed) {
			r.fail(err)
		}
	}(r.server, r.gate, r.served)
	return nil
}

// openWay lets others pass a directory, and not list it.
func openWay(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o111 == 0o111 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o111)
}

// stop ends it, with the connections that are open. The caller holds r.mu.
func (r *readers) stop() {
	if r.server == nil {
		return
	}
	r.server.Close()
	<-r.served
	_ = os.Remove(r.options.Instance.ReadSocket()) // the listener has removed it
	r.closeWay()
	r.server = nil
}

// closeWay lets only root pass the directory.
func (r *readers) closeWay() {
	_ = os.Chmod(r.options.Instance.Dir, os.FileMode(0o700)) // it may be gone with all else
}

func (r *readers) Close(bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

// refusal is why a connection may not read, and the status that says so.
type refusal struct {
	status int
	why    string
}

// refusalKey has a refusal in the context of a connection.
type refusalKey struct{}

// onlyReading refuses what changes something, and those who may not even read.
func onlyReading(api http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, r refusal) {
		w.Header().Set("Connection", "close")
		service.Answer(w, r.status, map[string]string{"error": r.why})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r, refused := req.Context().Value(refusalKey{}).(refusal); refused {
			refuse(w, r)
		} else if req.Method != http.MethodGet {
			refuse(w, refusal{http.StatusForbidden, "the members of node.read-group change nothing: only root does; use sudo"})
		} else {
			api.ServeHTTP(w, req)
		}
	})
}

// gate counts the connections of users who may read, and of others, who get an answer that says why they may not.
type gate struct {
	*net.UnixListener
	group string
	gid   uint32

	mu             sync.Mutex
	inside, beyond int
	byUser         map[uint32]int // of inside, besides root's
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, may := mayRead(conn, g.gid)
		if c := g.admit(conn, uid, may); c != nil {
			return c, nil
		}
		conn.Close()
	}
}

// admit counts a connection, whose user may be allowed to read or not; nil: there are too many even
// of those that get this answer.
func (g *gate) admit(conn *net.UnixConn, uid uint32, may bool) *reading {
	c := &reading{UnixConn: conn, gate: g, uid: uid, patience: mostStalled}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !may:
		c.refused = &refusal{
			http.StatusForbidden, "only root and the members of the group " + g.group + " may ask this agent; who was added to it must log in again",
		}
	case uid != 0 && g.byUser[uid] >= mostOfUser:
		c.refused = &refusal{
			http.StatusServiceUnavailable, fmt.Sprintf("%d connections of user %d are open, the maximum; end one of them", mostOfUser, uid),
		}
	case g.inside >= mostReaders:
		c.refused = &refusal{
			http.StatusServiceUnavailable, fmt.Sprintf("%d connections of readers are open, the maximum; ask later, or as root", mostReaders),
		}
	}
	if c.refused == nil {
		g.inside++
		if uid != 0 {
			g.byUser[uid]++
		}
		return c
	}
	if g.beyond >= mostReaders {
		return nil
	}
	g.beyond++
	return c
}

// leave counts a connection no longer.
func (g *gate) leave(c *reading) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.refused != nil {
		g.beyond--
		return
	}
	g.inside--
	if c.uid == 0 {
		return
	}
	if g.byUser[c.uid]--; g.byUser[c.uid] == 0 {
		delete(g.byUser, c.uid)
	}
}

// reading is a connection that is counted.
type reading struct {
	*net.UnixConn
	gate     *gate
	uid      uint32 // at the other end
	patience time.Duration
	refused  *refusal // nil: it is not
	once     sync.Once
}

// mostStalled is how long a reader may take nothing of what is written to it: none holds memory for ever.
const mostStalled = 30 * time.Second

// Write gives up a reader that takes nothing.
func (c *reading) Write(b []byte) (n int, err error) {
	const piece = 64 << 10 // a large answer may take longer as a whole
	for {
		part := b[n:min(n+piece, len(b))]
		if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return n, err
		}
		written, err := c.UnixConn.Write(part)
		if n += written; err != nil || n == len(b) {
			return n, err
		}
	}
}

func (c *reading) Close() error {
	c.once.Do(func() { c.gate.leave(c) })
	return c.UnixConn.Close()
}

// ofConn is the context of a connection.
func ofConn(ctx context.Context, conn net.Conn) context.Context {
	switch c, is := conn.(*reading); {
	case !is:
		return ctx
	case c.refused != nil:
		return context.WithValue(ctx, refusalKey{}, *c.refused)
	case c.uid != 0:
		return service.ForMember(ctx)
	}
	return ctx
}

// mayRead reports who is at the other end, and whether that is root or a member of a group, as the kernel says.
func mayRead(conn *net.UnixConn, gid uint32) (uid uint32, may bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return
		}
		uid = peer.Uid
		may = uid == 0 || peer.Gid == gid || slices.Contains(peerGroups(fd), gid)
	})
	return uid, may && err == nil
}

// peerGroups are the supplementary groups of the other end, none if they cannot be read.
func peerGroups(fd uintptr) []uint32 {
	const most = 1 << 16 // NGROUPS_MAX
	for room := 64; ; {
		b := make([]byte, 4*room)
		length := uint32(len(b))
		_, _, errno := unix.Syscall6(
			unix.SYS_GETSOCKOPT,
			fd,
			unix.SOL_SOCKET,
			unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&b[0])),
			uintptr(unsafe.Pointer(&length)),
			0,
		)
		if errno == syscall.ERANGE && room < most {
			room = most
			continue
		}
		if errno != 0 {
			return nil
		}
		list := make([]uint32, 0, length/4)
		for b = b[:length]; len(b) >= 4; b = b[4:] {
			list = append(list, binary.NativeEndian.Uint32(b))
		}
		return list
	}
}
