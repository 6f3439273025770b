// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/kmsgtest"
	"github.com/waymark-net/waymark/test/testnet"
)

// TestMain is also the process that TestPinsOutlivePrivateMounts runs in a
// mount namespace of its own, as under "ip netns exec".
func TestMain(m *testing.M) {
	root := os.Getenv("WAYMARK_TEST_PINS")
	if root == "" {
		os.Exit(kmsgtest.Run(m))
	}
	pins, err := PreparePins(root)
	if err == nil {
		err = os.Mkdir(pins.Path(api.At(root, 7)), 0o700)
	}
	fmt.Printf("private=%v error=%v\n", pins.Private, err)
}

func TestPinsOutlivePrivateMounts(t *testing.T) {
	testnet.NeedRoot(t)
	for _, before := range []bool{false, true} { // a mount that is there already
		t.Run(fmt.Sprintf("mounted=%v", before), func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, "bpf")
			t.Cleanup(func() {
				if err := unix.Unmount(path, 0); err != nil {
					t.Error(err)
				}
			})
			if before {
				if err := mountBPF(path); err != nil {
					t.Fatal(err)
				}
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "WAYMARK_TEST_PINS="+root)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // and Go makes its mounts private
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "private=false error=<nil>") {
				t.Fatalf("%v\n%s", err, out)
			}
			if isBPF, err := isBPFFS(path); err != nil || !isBPF {
				t.Fatalf("no BPF file system is left at %s: %v", path, err)
			}
			found, ok, err := findPins(root, api.At(root, 7))
			if !ok || err != nil || found != filepath.Join(path, "netns-7") {
				t.Errorf("pins found at %q, %v, %v", found, ok, err)
			}
			if _, ok, _ := findPins(root, api.At(root, 8)); ok {
				t.Error("pins of a namespace that has none were found")
			}
			if err := os.Remove(found); err != nil {
				t.Error(err)
			}
		})
	}
}

// A service of systemd with ProtectSystem has a mount namespace of its own, and may enter no other
// without CAP_SYS_CHROOT: its pins outlive it where the machine has the mount.
func TestPinsOfAConfinedService(t *testing.T) {
	testnet.NeedRoot(t)
	for _, before := range []bool{false, true} { // a mount that a unit made
		root := t.TempDir()
		path := filepath.Join(root, "bpf")
		if before {
			if err := mountBPF(path); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(path, 0); err != nil {
					t.Error(err)
				}
			})
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("setpriv", "--bounding-set=-all,+net_admin,+sys_admin", self)
		cmd.Env = append(os.Environ(), "WAYMARK_TEST_PINS="+root)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("private=%v error=<nil>", !before); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("mounted=%v: %v\n%s\nwant %s", before, err, out, want)
		}
		if _, ok, err := findPins(root, api.At(root, 7)); ok != before || err != nil {
			t.Errorf("mounted=%v: pins found: %v, %v", before, ok, err)
		}
	}
}

func TestAncestors(t *testing.T) {
	list := ancestors()
	if list[0] != 1 || !slices.Contains(list, os.Getppid()) || slices.Contains(list, os.Getpid()) {
		t.Errorf("ancestors %v of %d, whose parent is %d", list, os.Getpid(), os.Getppid())
	}
}

func TestOwnMountNamespaceIsKnown(t *testing.T) {
	list := outerMountNamespaces()
	parent := list[len(list)-1]
	if parent.pid != os.Getppid() || !parent.own {
		t.Errorf("the parent's mount namespace is %+v, want this process's own", parent)
	}
	if ids := mountIDs("self"); len(ids) == 0 || ids[""] {
		t.Errorf("own mounts %v", ids)
	}
	if ids := mountIDs("0"); ids != nil {
		t.Errorf("mounts of a process that does not exist: %v", ids)
	}
}

func TestMountNeedsADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mountBPF(filepath.Join(file, "bpf")); err == nil {
		t.Error("mounted below a file")
	}
}
