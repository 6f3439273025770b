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
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

// askAs makes a request as another user, with another group and further ones, by a thread that has their
// credentials and then ends.
func askAs(socket, request string, uid, gid int, groups []uint32) (answer string, err error) {
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
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
			return
		}
		var conn net.Conn
		if conn, err = net.FileConn(file); err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n", request)
		response, failed := http.ReadResponse(bufio.NewReader(conn), nil)
		if failed != nil {
			err = failed
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer = strconv.Itoa(response.StatusCode) + " " + string(body)
	}()
	<-done
	return answer, err
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
	for dir := filepath.Dir(filepath.Dir(h.Place.Dir)); dir != "/"; dir = filepath.Dir(dir) { // that of the test is root's alone
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
		{"by its group", h.Place.ReadSocket(), "GET /v1/status", gid, nil, `200 {`},
		{"by a further group", h.Place.ReadSocket(), "GET /v1/warnings", other, []uint32{7, uint32(gid)}, "200 ["},
		{"among many groups", h.Place.ReadSocket(), "GET /v1/status", other, append(make([]uint32, 300), uint32(gid)), "200 {"},
		{"a stranger", h.Place.ReadSocket(), "GET /v1/status", other, []uint32{7}, `403 {"error":"only root and the members of the group daemon`},
		{"a change", h.Place.ReadSocket(), "POST /v1/reload", gid, nil, `403 {"error":"the members of node.read-group change nothing`},
		{"a removal", h.Place.ReadSocket(), "DELETE /v1/namespaces/123", gid, nil, "403 "},
		{"the socket for root", h.Place.Socket(), "GET /v1/status", gid, nil, "permission denied"},
	} {
		got, err := askAs(tt.socket, tt.request, nobody, tt.gid, tt.groups)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %.200s, want %s", tt.what, got, tt.want)
		}
	}
	if info, err := os.Stat(h.Place.Dir); err != nil || info.Mode().Perm() != 0o711 {
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
	if _, err := os.Stat(h.Place.ReadSocket()); err == nil {
		t.Error("the socket stays")
	}
	if info, err := os.Stat(h.Place.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
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
