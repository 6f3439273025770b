// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

// dialAs connects as another user, with another group and further ones, by a thread that has their credentials and
// then ends.
func dialAs(socket string, uid, gid int, groups []uint32) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread ends with this goroutine
		var list unsafe.Pointer
		if len(groups) > 0 {
			list = unsafe.Pointer(&groups[0])
		}
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0}, {unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
			{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				err = errno
				return
			}
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		file := os.NewFile(uintptr(fd), "client")
		defer file.Close()
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err == nil {
			conn, err = net.FileConn(file)
		}
	}()
	<-done
	return conn, err
}

// askAs makes a request as another user.
func askAs(socket, request string, uid, gid int, groups []uint32) (answer string, err error) {
	conn, err := dialAs(socket, uid, gid, groups)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n", request)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return strconv.Itoa(response.StatusCode) + " " + string(body), err
}

// The members of the group read, by their group or a further one, and change nothing; others are told why not; the
// socket for root stays closed to all of them, and without the key there is no other.
func TestReadGroup(t *testing.T) {
	testnet.NeedRoot(t)
	group, err := user.LookupGroup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, strings.Replace(agenttest.BaseConfig, "node: {", "node: {read-group: daemon, ", 1))
	for dir := filepath.Dir(filepath.Dir(h.Instance.Dir)); dir != "/"; dir = filepath.Dir(dir) { // that of the test is root's alone
		if err := openWay(dir); err != nil {
			t.Fatal(err)
		}
	}
	h.Start()
	const nobody, other = 65534, 65533
	for _, tt := range []struct {
		what, socket, request string
		gid                   int
		groups                []uint32
		want                  string
	}{
		{"by its group", h.Instance.ReadSocket(), "GET /v1/status", gid, nil, `200 {`},
		{"by a further group", h.Instance.ReadSocket(), "GET /v1/warnings", other, []uint32{7, uint32(gid)}, "200 ["},
		{"among many groups", h.Instance.ReadSocket(), "GET /v1/status", other, append(make([]uint32, 300), uint32(gid)), "200 {"},
		{"a stranger", h.Instance.ReadSocket(), "GET /v1/status", other, []uint32{7}, `403 {"error":"only root and the members of the group daemon`},
		{"a change", h.Instance.ReadSocket(), "POST /v1/reload", gid, nil, `403 {"error":"the members of node.read-group change nothing`},
		{"a removal", h.Instance.ReadSocket(), "DELETE /v1/namespaces/123", gid, nil, "403 "},
		{"the socket for root", h.Instance.Socket(), "GET /v1/status", gid, nil, "permission denied"},
	} {
		got, err := askAs(tt.socket, tt.request, nobody, tt.gid, tt.groups)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %.200s, want %s", tt.what, got, tt.want)
		}
	}
	checkUserBound(t, h.Instance.ReadSocket(), gid)
	if info, err := os.Stat(h.Instance.Dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	h.Write(strings.Replace(agenttest.BaseConfig, "node: {", "node: {read-group: nosuchgroup, ", 1))
	if _, err := h.Client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "groupadd --system nosuchgroup") {
		t.Errorf("%v", err)
	}
	h.Write(agenttest.BaseConfig)
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(h.Instance.ReadSocket()); err == nil {
		t.Error("the socket stays")
	}
	if info, err := os.Stat(h.Instance.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	checkUnserved(t, h, gid)
}

// checkUnserved checks that a socket which cannot be opened is warned of, and that a reload of the same file tries
// again.
func checkUnserved(t *testing.T, h *harness, gid int) {
	t.Helper()
	inTheWay := filepath.Join(h.Instance.ReadSocket(), "file")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Write(strings.Replace(agenttest.BaseConfig, "node: {", "node: {read-group: daemon, ", 1))
	for _, warned := range []bool{true, false} {
		if _, err := h.Client.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		ws, err := h.Client.Warnings(t.Context())
		if is := slices.ContainsFunc(ws, func(w health.Warning) bool { return w.Code == health.ReadersUnserved }); err != nil || is != warned {
			t.Errorf("warned: %v, want %v; %v", is, warned, err)
		}
		if warned { // the agent itself removes the directory, which is then empty
			if err := os.Remove(inTheWay); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := askAs(h.Instance.ReadSocket(), "GET /v1/warnings", 65534, gid, nil); err != nil || !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s %v", got, err)
		}
	}
}

// checkUserBound checks that a user with too many connections is told so, and that others are not concerned.
func checkUserBound(t *testing.T, socket string, gid int) {
	t.Helper()
	const greedy, other = 65531, 65532
	for range mostOfUser {
		conn, err := dialAs(socket, greedy, gid, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	const request = "GET /v1/warnings"
	if got, err := askAs(socket, request, greedy, gid, nil); err != nil || !strings.HasPrefix(got, "503 ") ||
		!strings.Contains(got, "8 connections of user 65531") {
		t.Errorf("%s %v", got, err)
	}
	if got, err := askAs(socket, request, other, gid, nil); err != nil || !strings.HasPrefix(got, "200 ") {
		t.Errorf("%s %v", got, err)
	}
}

// Connections are counted until they close, once each.
func TestGateCounts(t *testing.T) {
	t.Parallel()
	g := &gate{group: "daemon", byUser: make(map[uint32]int)}
	var open []*reading
	admit := func(uid uint32, may bool) *reading {
		c := g.admit(new(net.UnixConn), uid, may)
		if c != nil {
			open = append(open, c)
		}
		return c
	}
	for i := range mostReaders {
		if c := admit(uint32(1+i/mostOfUser), true); c.refused != nil {
			t.Fatalf("connection %d: %+v", i, c.refused)
		}
	}
	for _, uid := range []uint32{0, 1, 1000} { // root is at the other socket
		if c := admit(uid, true); c.refused == nil || c.refused.status != http.StatusServiceUnavailable {
			t.Errorf("user %d: %+v", uid, c.refused)
		}
	}
	for g.beyond < mostReaders {
		if c := admit(1000, false); c.refused == nil || c.refused.status != http.StatusForbidden {
			t.Fatalf("%+v", c.refused)
		}
	}
	if c := admit(1000, false); c != nil {
		t.Error("more refusals than are answered")
	}
	for _, c := range open {
		c.Close()
		c.Close()
	}
	if g.inside != 0 || g.beyond != 0 || len(g.byUser) != 0 {
		t.Errorf("%d %d %v remain", g.inside, g.beyond, g.byUser)
	}
	for range 2 * mostOfUser {
		if c := admit(0, true); c.refused != nil {
			t.Fatalf("root: %+v", c.refused)
		}
	}
}

// A reader that takes nothing is given up, and one that takes a large answer gets all of it.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	pair := func(most time.Duration) (*reading, net.Conn) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ends [2]net.Conn
		for i, fd := range fds {
			file := os.NewFile(uintptr(fd), "end")
			defer file.Close()
			if ends[i], err = net.FileConn(file); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ends[i].Close() })
		}
		return &reading{UnixConn: ends[0].(*net.UnixConn), patience: most}, ends[1]
	}
	answer := make([]byte, 4<<20)
	stalled, _ := pair(50 * time.Millisecond)
	if n, err := stalled.Write(answer); !errors.Is(err, os.ErrDeadlineExceeded) || n >= len(answer) {
		t.Errorf("%d octets, %v", n, err)
	}
	taken, end := pair(patience.Of(30 * time.Second))
	go io.Copy(io.Discard, end)
	if n, err := taken.Write(answer); err != nil || n != len(answer) {
		t.Errorf("%d octets, %v", n, err)
	}
}
