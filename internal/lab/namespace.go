// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// namespaceDirectory is where iproute2 looks for named network namespaces.
const namespaceDirectory = "/run/netns"

// errLeft reports that a function left its goroutine without returning.
var errLeft error = problem.New("the function left its goroutine (runtime.Goexit)", "report errors as a return value")

// createNamespace makes a named network namespace and returns a handle to it.
func createNamespace(name string) (netns.NsHandle, error) {
	if err := shareNamespaceDirectory(); err != nil {
		return netns.None(), err
	}
	path := filepath.Join(namespaceDirectory, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return netns.None(), problem.New(
			fmt.Sprintf("network namespace %s exists and belongs to no lab", name),
			fmt.Sprintf("remove it (ip netns del %s) or give the lab another name", name),
		)
	}
	if err != nil {
		return netns.None(), err
	}
	f.Close()
	handle, err := mountNewNamespace(path)
	if err != nil {
		os.Remove(path)
		return netns.None(), fmt.Errorf("create network namespace %s: %w", name, err)
	}
	return handle, nil
}

// mountNewNamespace mounts a new namespace at path. Its thread cannot change back: it
// stays locked, and ends with the goroutine.
func mountNewNamespace(path string) (netns.NsHandle, error) {
	type result struct {
		handle netns.NsHandle
		err    error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- result{netns.None(), err}
			return
		}
		self := fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		if err := unix.Mount(self, path, "none", unix.MS_BIND, ""); err != nil {
			done <- result{netns.None(), err}
			return
		}
		handle, err := netns.GetFromPath(path)
		if err != nil {
			err = errors.Join(err, unix.Unmount(path, unix.MNT_DETACH))
		}
		done <- result{handle, err}
	}()
	r := <-done
	return r.handle, r.err
}

// shareNamespaceDirectory makes the directory a shared mount, as `ip netns` does: a
// removed namespace then disappears in every mount namespace, and a later `ip netns
// add` does not mount over existing ones.
func shareNamespaceDirectory() error {
	if err := os.MkdirAll(namespaceDirectory, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", namespaceDirectory, "none", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err := unix.Mount(namespaceDirectory, namespaceDirectory, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", namespaceDirectory, err)
		}
		err = unix.Mount("", namespaceDirectory, "none", unix.MS_SHARED|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("share the mount %s: %w", namespaceDirectory, err)
	}
	return nil
}

// removeNamespace removes a name; the namespace ends with its last user.
func removeNamespace(name string) error {
	path := filepath.Join(namespaceDirectory, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// inNamespace runs f on a thread in the namespace. Sockets made and processes started
// there stay in it.
func inNamespace(handle netns.NsHandle, f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errLeft
		defer func() { done <- err }()
		runtime.LockOSThread()
		home, herr := netns.Get()
		if herr != nil {
			err = fmt.Errorf("open this thread's network namespace: %w", herr)
			return
		}
		defer home.Close()
		if serr := netns.Set(handle); serr != nil {
			err = fmt.Errorf("enter the network namespace: %w", serr)
			return
		}
		// A thread that cannot go back stays locked and ends here.
		defer func() {
			if netns.Set(home) == nil {
				runtime.UnlockOSThread()
			}
		}()
		err = f()
	}()
	return <-done
}

// processesIn lists the processes that are in a network namespace.
func processesIn(handle netns.NsHandle) ([]int, error) {
	var want unix.Stat_t
	if err := unix.Fstat(int(handle), &want); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		var got unix.Stat_t
		if unix.Stat(filepath.Join("/proc", e.Name(), "ns/net"), &got) == nil && got.Ino == want.Ino && got.Dev == want.Dev {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
