// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

var labNumber atomic.Int32

// testOptions gives a lab a name that no other test uses.
func testOptions(t *testing.T) Options {
	t.Helper()
	testnet.NeedRoot(t)
	return Options{
		Name:      fmt.Sprintf("wl%d-%d", os.Getpid(), labNumber.Add(1)),
		directory: filepath.Join(t.TempDir(), "lab"),
	}
}

// raise brings a built-in topology up and takes it down at the end.
func raise(t *testing.T, topology string) *Lab {
	t.Helper()
	top, err := Builtin(topology)
	if err != nil {
		t.Fatal(err)
	}
	return raiseTopology(t, top)
}

func raiseTopology(t *testing.T, top *Topology) *Lab {
	t.Helper()
	l, err := Up(t.Context(), top, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
	})
	return l
}

// checkNothingLeft proves that a lab's name has left no trace.
func checkNothingLeft(t *testing.T, o Options) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(namespaceDirectory, o.Name+"-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("namespaces are left: %v (%v)", left, err)
	}
	entries, err := os.ReadDir(o.directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left in %s", e.Name(), o.directory)
	}
}

func TestUpAndDownLeaveNothingBehind(t *testing.T) {
	o := testOptions(t)
	top, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	descriptors := openDescriptors(t)
	l, err := Up(t.Context(), top, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), top, o); err == nil || !strings.Contains(err.Error(), "waymark lab down --name "+o.Name) {
		t.Errorf("a second Up gave %v; want a refusal with its cure", err)
	}
	// The shell's child is in the shell's process group.
	cmd := l.Node("porthos").Command(t.Context(), "sh", "-c", "sleep 300 & echo $!; wait")
	out := &lineBuffer{line: make(chan string, 1)}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(<-out.line, &child); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	other, err := open(o.Name, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Down(t.Context()); err != nil {
		t.Errorf("Down: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the process in the lab ended by itself; it should have been ended")
	}
	if id, ok := identify(child); ok {
		t.Errorf("the grandchild %+v still runs", id)
	}
	checkNothingLeft(t, o)
	if err := l.Down(t.Context()); err != nil {
		t.Errorf("a second Down: %v", err)
	}
	for _, n := range l.nodes {
		n.handle.Close()
	}
	if now := openDescriptors(t); now > descriptors {
		t.Errorf("%d descriptors are open, %d were before", now, descriptors)
	}
}

type lineBuffer struct{ line chan string }

func (b *lineBuffer) Write(p []byte) (int, error) {
	b.line <- string(p)
	return len(p), nil
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A recorded PID that now belongs to another process is left alone.
func TestDownSparesOthers(t *testing.T) {
	o := testOptions(t)
	top, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Up(t.Context(), top, o)
	if err != nil {
		t.Fatal(err)
	}
	bystander := l.Node("alpha").Command(t.Context(), "sleep", "300")
	if err := bystander.Cmd.Start(); err != nil { // not recorded by the lab, and outside its namespaces
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	id, ok := identify(bystander.Process.Pid)
	if !ok {
		t.Fatal("the bystander is not there")
	}
	id.Start--
	if err := update(l.directory, func(s *state) {
		s.Processes = append(s.Processes, processRecord{processID: id, Node: "alpha", Command: "gone", Group: true})
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.Down(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok := identify(bystander.Process.Pid); !ok {
		t.Error("Down ended a process that it did not start")
	}
}

// A process that entered a namespace by itself is named, not killed.
func TestDownNamesInhabitants(t *testing.T) {
	o := testOptions(t)
	top, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Up(t.Context(), top, o)
	if err != nil {
		t.Fatal(err)
	}
	guest := l.Node("beta").Command(t.Context(), "sleep", "300")
	if err := l.Node("beta").Do(guest.Cmd.Start); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = guest.Process.Kill(); _ = guest.Wait() }()
	err = l.Down(t.Context())
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("processes [%d] still run in %s-beta", guest.Process.Pid, o.Name)) {
		t.Errorf("Down gave %v; want the guest's number", err)
	}
	checkNothingLeft(t, o)
}

// Up ends at whatever step its context ends, and leaves nothing.
func TestInterruptedUpLeavesNothing(t *testing.T) {
	top, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	interrupted := 0
	for after := time.Duration(0); after < 60*time.Millisecond; after += 6 * time.Millisecond {
		o := testOptions(t)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		l, err := Up(ctx, top, o)
		cancel()
		if err == nil {
			err = l.Down(t.Context())
		} else {
			interrupted++
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("interrupted after %v: %v", after, err)
			}
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
		checkNothingLeft(t, o)
	}
	if interrupted == 0 {
		t.Error("nothing was interrupted; the delays are too long")
	}
}

// After a failure in the middle, everything made is removed, and nothing that existed
// before.
func TestFailedUpLeavesNothing(t *testing.T) {
	o := testOptions(t)
	top, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	foreign := o.Name + "-aramis"
	handle, err := createNamespace(foreign)
	if err != nil {
		t.Fatal(err)
	}
	handle.Close()
	_, err = Up(t.Context(), top, o)
	if err == nil || !strings.Contains(err.Error(), "ip netns del "+foreign) {
		t.Errorf("Up over a foreign namespace gave %v; want a cure", err)
	}
	if _, err := os.Stat(filepath.Join(namespaceDirectory, foreign)); err != nil {
		t.Errorf("the foreign namespace is gone: %v", err)
	}
	if err := removeNamespace(foreign); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, o)
}

// The remains of a killed run are removed by the next one of that name.
func TestUpReplacesDeadOwner(t *testing.T) {
	o := testOptions(t)
	o.Owned = true
	top, err := Builtin("line")
	if err != nil {
		t.Fatal(err)
	}
	first, err := Up(t.Context(), top, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), top, o); err == nil {
		t.Error("a lab whose owner lives was replaced")
	}
	if err := update(first.directory, func(s *state) { s.Owner.Start-- }); err != nil {
		t.Fatal(err)
	}
	second, err := Up(t.Context(), top, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Down(t.Context()); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, o)
}

func TestLineCarriesTraffic(t *testing.T) {
	l := raise(t, "line")
	for _, traffic := range []Traffic{
		{Kind: KindPing, From: "alpha", To: "beta", Count: 20, Interval: 5 * time.Millisecond, Size: 56},
		{Kind: KindPing, From: "beta", To: "alpha", Count: 5, Interval: 5 * time.Millisecond, Size: 1000},
		{Kind: KindUDP, From: "alpha", To: "beta", Count: 50, Interval: time.Millisecond, Size: 1400, Port: 9000},
		{Kind: KindUDP, From: "alpha", To: "beta", Count: 3, Interval: time.Millisecond, Size: 9000, Port: 9000},
		{Kind: KindTCP, From: "alpha", To: "beta", Bytes: 5<<20 + 3, Port: 9001},
		{Kind: KindTCP, From: "beta", To: "alpha", Bytes: 1, Port: 9001},
	} {
		r, err := l.Send(t.Context(), traffic)
		for try := 1; try < 3 && err == nil && r.Lost() > 0; try++ { // a busy machine's kernel may drop one before a node has it
			r, err = l.Send(t.Context(), traffic)
		}
		if err != nil {
			t.Errorf("%+v: %v", traffic, err)
			continue
		}
		if traffic.Kind == KindTCP {
			if r.Bytes != traffic.Bytes {
				t.Errorf("%d of %d bytes came", r.Bytes, traffic.Bytes)
			}
			continue
		}
		if r.Sent != traffic.Count || r.Lost() != 0 || r.Duplicate != 0 || r.Bytes != int64(traffic.Count*traffic.Size) {
			t.Errorf("%+v: %+v", traffic, r)
		}
		if traffic.Kind == KindPing && (len(r.RoundTrip) != traffic.Count || slices.Min(r.RoundTrip) <= 0) {
			t.Errorf("round trips are %v", r.RoundTrip)
		}
	}
}

// Losses are counted, and the time is bounded.
func TestLossIsCounted(t *testing.T) {
	l := raise(t, "line")
	out, err := l.Node("porthos").Command(t.Context(), "ip", "link", "set", "eth1", "down").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start := time.Now()
	for _, kind := range []string{KindPing, KindUDP} {
		r, err := l.Send(t.Context(), Traffic{Kind: kind, From: "alpha", To: "beta", Count: 3, Interval: time.Millisecond, Size: 64, Port: 9000})
		if err != nil || r.Sent != 3 || r.Lost() != 3 {
			t.Errorf("%s over a broken link: %+v, %v", kind, r, err)
		}
	}
	if took := time.Since(start); took > patience.Of(10*time.Second) {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := l.Send(ctx, Traffic{Kind: KindTCP, From: "alpha", To: "beta", Bytes: 100, Port: 9001}); err == nil {
		t.Error("a transfer over a broken link succeeded")
	}
}

func TestEqualPathsAreUsed(t *testing.T) {
	l := raise(t, "ecmp")
	awaitWay(t, l)
	var by [2]atomic.Int32
	var captures []*Capture
	for i, node := range []string{"porthos", "dartagnan"} {
		c, err := l.Capture(node, "eth1", CaptureOptions{Each: func(p Packet) {
			const next, destinationPort, udp = ethernetSize + 6, ethernetSize + ipv6Size + 2, 17
			if p.Outgoing && len(p.Data) > destinationPort && p.Data[next] == udp {
				by[i].Add(1)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		captures = append(captures, c)
	}
	const flows, count = 24, 3
	for i := range flows {
		r, err := l.Send(t.Context(), Traffic{Kind: KindUDP, From: "alpha", To: "beta", Count: count, Size: 64, Port: uint16(9000 + i)})
		if err != nil || r.Lost() != 0 {
			t.Errorf("flow %d: %+v, %v", i, r, err)
		}
	}
	for _, c := range captures {
		if stats, err := c.Stop(); err != nil || stats.Dropped > 0 {
			t.Errorf("capture: %+v, %v", stats, err)
		}
	}
	a, b := by[0].Load(), by[1].Load()
	if a == 0 || b == 0 || a+b != flows*count {
		t.Errorf("porthos carried %d packets, dartagnan %d; want both, %d in all", a, b, flows*count)
	}
}

// awaitWay waits until packets get from alpha to beta: the kernel's table of neighbours, which other tests fill, may have
// no room at first.
func awaitWay(t *testing.T, l *Lab) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(10 * time.Second)); ; {
		r, err := l.Send(t.Context(), Traffic{Kind: KindUDP, From: "alpha", To: "beta", Count: 1, Size: 700, Port: 9001})
		if err == nil && r.Lost() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("alpha does not reach beta: %+v, %v", r, err)
		}
	}
}

func TestCaptureWritesPcap(t *testing.T) {
	l := raise(t, "line")
	var file bytes.Buffer
	seen := 0
	awaitWay(t, l)
	c, err := l.Capture("beta", "eth0", CaptureOptions{Writer: &file, Each: func(Packet) { seen++ }})
	if err != nil {
		t.Fatal(err)
	}
	const count = 100
	if r, err := l.Send(t.Context(), Traffic{Kind: KindUDP, From: "alpha", To: "beta", Count: count, Size: 700, Port: 9000}); err != nil ||
		r.Lost() != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	stats, err := c.Stop()
	if err != nil || stats.Dropped != 0 || stats.Packets != seen {
		t.Fatalf("%+v, %v; %d packets were seen", stats, err, seen)
	}
	reader, err := pcapgo.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	datagrams := 0
	for range seen {
		data, info, err := reader.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == ethernetSize+ipv6Size+8+700 && time.Since(info.Timestamp).Abs() < time.Minute {
			datagrams++
		}
	}
	if datagrams != count {
		t.Errorf("the file holds %d of %d datagrams", datagrams, count)
	}
}

// A child is in the node's namespace, and only that differs.
func TestCommand(t *testing.T) {
	l := raise(t, "line")
	out, err := l.Node("athos").Command(t.Context(), "sh", "-c", "readlink /proc/self/ns/net; readlink /proc/self/ns/mnt").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want unix.Stat_t
	if err := unix.Stat(filepath.Join(namespaceDirectory, l.Node("athos").Namespace()), &want); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{fmt.Sprintf("net:[%d]", want.Ino), mounts}) {
		t.Errorf("the child is in %v", got)
	}
	_, err = l.Node("athos").Command(t.Context(), "sh", "-c", "echo why >&2; exit 3").Output()
	if err == nil || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("a failing child gave %v", err)
	}
}

func TestPermanentNeighbours(t *testing.T) {
	top, err := Parse("small.yaml", []byte("permanent-neighbours: true\n"+smallTopology))
	if err != nil {
		t.Fatal(err)
	}
	l, err := Up(t.Context(), top, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	out, err := l.Node("a").Command(t.Context(), "ip", "-6", "neigh", "show", "2001:db8:1::2").Output()
	if err != nil || !strings.Contains(string(out), "PERMANENT") {
		t.Errorf("a's neighbour is %q, %v", out, err)
	}
}
