// SPDX-License-Identifier: Apache-2.0

// Package testnet gives tests network namespaces of their own, and the links,
// addresses and settings in them. Tests of whole topologies use internal/lab.
package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

// When a goroutine ends locked to the first thread of a process, that thread is
// parked rather than ended, and would keep a namespace for ever.
func init() { runtime.LockOSThread() }

// NeedRoot must come first in a test that only root can run: -short skips it, and
// without root it fails.
func NeedRoot(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs root; make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root; -short leaves it out")
	}
	NameHooks(t)
}

// Namespace is a network namespace. It ends with the test, or with the last
// socket or process in it.
type Namespace struct{ handle netns.NsHandle }

// New makes an empty namespace.
func New(t testing.TB) *Namespace {
	t.Helper()
	NeedRoot(t)
	n := &Namespace{}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		n.handle, err = netns.New()
	}()
	<-done
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(n.Close)
	return n
}

// Enter moves the test into a namespace of its own. Goroutines that it starts run
// outside it, unless Do starts them.
func Enter(t testing.TB) *Namespace {
	t.Helper()
	NeedRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	handle, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	n := &Namespace{handle}
	t.Cleanup(n.Close)
	return n
}

// Here is the caller's namespace.
func Here(t testing.TB) *Namespace {
	t.Helper()
	handle, err := netns.Get()
	if err != nil {
		t.Fatalf("open this thread's network namespace: %v", err)
	}
	n := &Namespace{handle}
	t.Cleanup(n.Close)
	return n
}

// Close lets go of the namespace before the test ends.
func (n *Namespace) Close() {
	if n.handle.IsOpen() {
		n.handle.Close()
	}
}

// Do runs f on its own thread in the namespace. Sockets and processes made there
// stay in the namespace.
func (n *Namespace) Do(f func() error) error {
	err := errors.New("the test ended inside the namespace")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if e := netns.Set(n.handle); e != nil {
			err = fmt.Errorf("enter a network namespace: %w", e)
			return
		}
		err = f()
	}()
	<-done
	return err
}

// Alone runs f in a new namespace; f may end the test.
func Alone(t testing.TB, f func()) {
	t.Helper()
	n := New(t)
	defer n.Close()
	if err := n.Do(func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}

// AddVeth makes a pair of links in the caller's namespace.
func AddVeth(t testing.TB, name, peer string, mtu int) {
	t.Helper()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}, PeerName: peer}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatalf("add %s: %v", name, err)
	}
}

// SetUp brings a link of the caller's namespace up and gives it addresses that
// can be used at once.
func SetUp(t testing.TB, name string, addresses ...string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	for _, text := range addresses {
		var a *netlink.Addr
		if err == nil {
			a, err = netlink.ParseAddr(text)
		}
		if err == nil {
			a.Flags = unix.IFA_F_NODAD
			err = netlink.AddrAdd(l, a)
		}
	}
	if err != nil {
		t.Fatalf("bring %s up: %v", name, err)
	}
}

// AwaitUp waits until a link sends packets. The kernel activates its queue some time after the link was set up, up to a
// second on a busy machine, and drops packets until then.
func AwaitUp(t testing.TB, name string) {
	t.Helper()
	for end := time.Now().Add(patience.Of(5 * time.Second)); ; time.Sleep(time.Millisecond) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not up, but %v", name, link.Attrs().OperState)
		}
	}
}

// Set writes a setting of the caller's namespace; name is the path below
// /proc/sys/net.
func Set(t testing.TB, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// Run runs commands, separated by ";", in the caller's namespace.
func Run(t testing.TB, commands string) {
	t.Helper()
	for command := range strings.SplitSeq(commands, ";") {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

// Counter is one of the kernel's counters of IPv6 in the namespace in which the test runs,
// by its name in /proc/net/snmp6.
func Counter(t testing.TB, name string) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/snmp6")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] != name {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("the kernel has no counter %s", name)
	return 0
}
