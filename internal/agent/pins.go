// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
)

// pinState is where pins are kept.
type pinState struct {
	root    string // a BPF file system
	private bool   // it is in this process's own mount namespace
}

func (p pinState) path(place api.Place) string { return filepath.Join(p.root, place.ID) }

// preparePins finds or mounts the BPF file system below root in the mount
// namespace of process 1: "ip netns exec" gives its child a mount namespace of
// its own, and what is mounted there goes with it. Where that namespace may
// not be entered, the file system is mounted in this one.
func preparePins(root string) (pinState, error) {
	path := filepath.Join(root, "bpf")
	same, err := inFirstMountNamespace()
	if err == nil && same {
		return pinState{root: path}, mountBPF(path)
	}
	if err == nil {
		err = inMountNamespaceOf("/proc/1/ns/mnt", func() error { return mountBPF(path) })
	}
	if err != nil {
		if mountErr := mountBPF(path); mountErr != nil {
			return pinState{}, mountErr
		}
		return pinState{root: path, private: true}, nil
	}
	// The mount is seen here when mounts propagate; the other namespace's
	// tree is always reached through its process.
	through := filepath.Join("/proc/1/root", path)
	if sameFile(path, through) {
		return pinState{root: path}, nil
	}
	return pinState{root: through}, nil
}

func sameFile(a, b string) bool {
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(first, second)
}

func inFirstMountNamespace() (bool, error) {
	own, err := os.Stat("/proc/self/ns/mnt")
	if err != nil {
		return false, err
	}
	first, err := os.Stat("/proc/1/ns/mnt")
	if err != nil {
		return false, err
	}
	return os.SameFile(own, first), nil
}

// inMountNamespaceOf calls fn in another mount namespace. It does so on a
// thread that ends with it: a thread that left its file system attributes and
// mount namespace must run no other goroutine.
func inMountNamespaceOf(path string, fn func() error) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			done <- fmt.Errorf("unshare: %w", err)
			return
		}
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
			done <- fmt.Errorf("enter the mount namespace of process 1: %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}

// mountBPF mounts a BPF file system unless there is one.
func mountBPF(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the directory of pins: %w", err)
	}
	if isBPF, err := isBPFFS(path); isBPF || err != nil {
		return err
	}
	err := unix.Mount("bpf", path, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700")
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("mount a BPF file system at %s: %w; mount it at boot (mount -t bpf bpf %s), or give the agent CAP_SYS_ADMIN", path, err, path)
	}
	if err != nil {
		return fmt.Errorf("mount a BPF file system at %s: %w", path, err)
	}
	return nil
}

func isBPFFS(path string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return false, fmt.Errorf("look at %s: %w", path, err)
	}
	return fs.Type == unix.BPF_FS_MAGIC, nil
}

// findPins is where the pins of a place are, if anywhere; it mounts nothing.
func findPins(root string, place api.Place) (string, bool) {
	path := filepath.Join(root, "bpf")
	for _, candidate := range []string{path, filepath.Join("/proc/1/root", path)} {
		pins := filepath.Join(candidate, place.ID)
		if _, err := os.Stat(pins); err != nil {
			continue
		}
		if isBPF, err := isBPFFS(pins); err == nil && isBPF {
			return pins, true
		}
	}
	return "", false
}
