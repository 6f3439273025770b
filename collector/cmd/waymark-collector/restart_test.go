// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
)

// TestMain is also the program itself, for tests that stop and kill it.
func TestMain(m *testing.M) {
	if os.Getenv("WAYMARK_COLLECTOR_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// manager acts as systemd does: it starts the program, hears when it is ready, and keeps its sockets.
type manager struct {
	t      *testing.T
	socket *net.UnixConn
	ready  chan struct{}

	mu   sync.Mutex
	kept map[string][]*os.File // by FDNAME
}

func newManager(t *testing.T) *manager {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{t: t, socket: socket, ready: make(chan struct{}, 1), kept: map[string][]*os.File{}}
	var hearing sync.WaitGroup
	hearing.Go(m.hear)
	t.Cleanup(func() {
		socket.Close()
		hearing.Wait()
		for name := range m.kept {
			m.remove(name)
		}
	})
	return m
}

func (m *manager) hear() {
	text, control := make([]byte, 4096), make([]byte, 4096)
	for {
		n, of, _, _, err := m.socket.ReadMsgUnix(text, control)
		if err != nil {
			return
		}
		values := map[string]string{}
		for line := range strings.SplitSeq(string(text[:n]), "\n") {
			key, value, _ := strings.Cut(line, "=")
			values[key] = value
		}
		m.mu.Lock()
		name := values["FDNAME"]
		switch {
		case values["FDSTORE"] == "1":
			m.kept[name] = append(m.kept[name], m.received(control[:of])...)
		case values["FDSTOREREMOVE"] == "1":
			m.remove(name)
		case values["READY"] == "1":
			m.ready <- struct{}{}
		}
		m.mu.Unlock()
	}
}

// received are the descriptors of a message.
func (m *manager) received(control []byte) (list []*os.File) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		m.t.Error(err)
	}
	for i := range messages {
		descriptors, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			m.t.Error(err)
		}
		for _, fd := range descriptors {
			unix.CloseOnExec(fd)
			list = append(list, os.NewFile(uintptr(fd), "kept"))
		}
	}
	return list
}

func (m *manager) remove(name string) {
	for _, f := range m.kept[name] {
		f.Close()
	}
	delete(m.kept, name)
}

// keeps compares the sockets that are kept.
func (m *manager) keeps(want map[string]int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	got := map[string]int{}
	for name, list := range m.kept {
		got[name] = len(list)
	}
	if !maps.Equal(got, want) {
		m.t.Errorf("kept are %v, want %v", got, want)
	}
}

// start starts the program with the sockets that are kept, and waits until it is ready.
func (m *manager) start(file string, environment ...string) *exec.Cmd {
	m.t.Helper()
	// The shell knows the number that its process keeps.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0], "run", "--config", file)
	var names []string
	m.mu.Lock()
	for name, list := range m.kept {
		for _, f := range list {
			names, cmd.ExtraFiles = append(names, name), append(cmd.ExtraFiles, f)
		}
	}
	m.mu.Unlock()
	cmd.Env = append(append(os.Environ(), environment...), "WAYMARK_COLLECTOR_TEST=run", "NOTIFY_SOCKET="+m.socket.LocalAddr().String(),
		fmt.Sprintf("LISTEN_FDS=%d", len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	select {
	case <-m.ready:
	case <-time.After(patience.Of(30 * time.Second)):
		m.t.Fatal("it is not ready")
	}
	return cmd
}

// stop ends the program in its turn.
func (m *manager) stop(cmd *exec.Cmd) {
	m.t.Helper()
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		m.t.Error(err)
	}
}

// freePort is a port that is free for UDP and for TCP.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// exporters are nodes of a path that send postcards over UDP without a pause, each from its own socket. They send their
// templates once.
type exporters struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}

	sent    []time.Time // when each packet was
	refused int         // messages, because no socket was there
}

func send(t *testing.T, to string, rate int) *exporters {
	t.Helper()
	s, err := storetest.NewSender(to)
	if err != nil {
		t.Fatal(err)
	}
	s.Once, s.Flows = true, flows
	var nodes []net.Conn
	for range storetest.Nodes {
		conn, err := net.Dial("udp", to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		nodes = append(nodes, conn)
	}
	x := &exporters{t: t, done: make(chan struct{})}
	s.Deliver = func(node int, message []byte) error {
		_, err := nodes[node].Write(message)
		if errors.Is(err, syscall.ECONNREFUSED) { // of the message before
			x.refused++
			_, err = nodes[node].Write(message)
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	x.cancel = cancel
	go func() {
		defer close(x.done)
		each := time.NewTicker(10 * time.Millisecond)
		defer each.Stop()
		for begun := time.Now(); ctx.Err() == nil; <-each.C {
			for due := int(time.Since(begun).Seconds() * float64(rate)); len(x.sent) < due; {
				n := min(5, due-len(x.sent))
				if err := s.Send(n); err != nil {
					t.Error(err)
					return
				}
				for range n {
					x.sent = append(x.sent, time.Now())
				}
			}
		}
	}()
	t.Cleanup(func() { x.end(); s.Close() })
	return x
}

func (x *exporters) end() {
	x.cancel()
	<-x.done
}

// flows is to how many flows the packets belong.
const flows = 10

// postcard is what one node reported of one packet.
type postcard struct{ flow, sequence, node uint32 }

// stored are the postcards that an API has, each with how often.
func stored(t *testing.T, api string, from, until time.Time) map[postcard]int {
	t.Helper()
	found := map[postcard]int{}
	for ; from.Before(until); from = from.Add(time.Second) {
		ask := url.Values{"limit": {"10000"}, "from": {from.Format(time.RFC3339Nano)}, "until": {from.Add(time.Second).Format(time.RFC3339Nano)}}
		response, err := http.Get(api + "/v1/packets?" + ask.Encode())
		if err != nil {
			t.Fatal(err)
		}
		var answer query.Packets
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || answer.Cut != nil {
			t.Fatalf("%s: %v %+v", response.Status, err, answer.Cut)
		}
		for _, p := range answer.Packets {
			for _, n := range p.Nodes {
				found[postcard{*p.FlowID, *p.Sequence, uint32(*n.ID)}]++
			}
		}
	}
	return found
}

// writeSettings writes a file for a collector at a port, with its store and API.
func writeSettings(t *testing.T, file, directory string, port, api int) {
	t.Helper()
	text := fmt.Sprintf("listen: [\"udp://[::1]:%d\", \"tcp://[::1]:%d\"]\nstore: {directory: %q}\napi: {address: \"http://[::1]:%d\"}\n",
		port, port, directory, api)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names are those of the sockets of a port, and how many there are.
func names(port, udp int) map[string]int {
	return map[string]int{fmt.Sprintf("udp [__1]_%d", port): udp, fmt.Sprintf("tcp [__1]_%d", port): 1}
}

// Nodes send without a pause over UDP, and their templates only once, while the collector is restarted and killed. A
// restart loses nothing; a kill at most what came in the second before it, since no packet waits for a postcard.
// Connections wait meanwhile. The number of readers changes with that of processors, and sockets of an address that is no
// longer in the file are closed.
func TestRestart(t *testing.T) {
	port, api, directory := freePort(t), freePort(t), t.TempDir()
	file := filepath.Join(t.TempDir(), "collector.yaml")
	writeSettings(t, file, directory, port, api)
	m := newManager(t)
	first := m.start(file, "GOMAXPROCS=1")
	m.keeps(names(port, 1))
	begun := time.Now()
	x := send(t, fmt.Sprintf("[::1]:%d", port), 600)
	time.Sleep(3 * time.Second)

	restarted := time.Now()
	m.stop(first)
	waiting, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	second := m.start(file, "GOMAXPROCS=4")
	m.keeps(names(port, 4))
	t.Logf("the restart took %v", time.Since(restarted))
	time.Sleep(4 * time.Second)

	killed := time.Now()
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
	gone := time.Now()
	third := m.start(file, "GOMAXPROCS=2")
	m.keeps(names(port, 4))
	time.Sleep(2 * time.Second)
	x.end()
	time.Sleep(patience.Of(4 * time.Second)) // what waits is joined and written
	found := stored(t, fmt.Sprintf("http://[::1]:%d", api), begun.Add(-time.Second), time.Now())
	m.stop(third)
	x.judge(found, killed, gone)

	other := freePort(t)
	writeSettings(t, file, directory, other, api)
	fourth := m.start(file, "GOMAXPROCS=2")
	m.keeps(names(other, 2))
	if conn, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", port)); err == nil {
		conn.Close()
		t.Error("a socket of an address that is no longer in the file is open")
	}
	m.stop(fourth)
}

// judge compares what was sent with what is stored: each postcard once, or not at all if it was sent in the second before
// the kill.
func (x *exporters) judge(found map[postcard]int, killed, gone time.Time) {
	x.t.Helper()
	lost, allowed, twice, oldest := 0, 0, 0, killed
	for i, at := range x.sent {
		for node := range uint32(storetest.Nodes) {
			switch n := found[postcard{uint32(i)%flows + 1, uint32(i)/flows + 1, node + 1}]; {
			case n > 1:
				twice++
			case n == 0 && at.After(killed.Add(-patience.Of(time.Second))) && at.Before(gone):
				allowed++
				if at.Before(oldest) {
					oldest = at
				}
			case n == 0:
				lost++
			}
		}
	}
	x.t.Logf("%d postcards sent, %d lost by the kill, of the last %v", len(x.sent)*storetest.Nodes, allowed, killed.Sub(oldest))
	if lost > 0 || twice > 0 || x.refused > 0 {
		x.t.Errorf("%d of %d postcards are lost besides, %d are there twice, %d messages were refused",
			lost, len(x.sent)*storetest.Nodes, twice, x.refused)
	}
}
