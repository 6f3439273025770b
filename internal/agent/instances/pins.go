// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/problem"
)

// Pins is where pins are kept.
type Pins struct {
	root    string // a BPF file system
	Private bool   // mounted only in this process's own mount namespace
}

// Path is the directory of an instance's pins.
func (p Pins) Path(instance api.Instance) string { return filepath.Join(p.root, instance.ID) }

// PreparePins finds or mounts the BPF file system below root, in a mount namespace that
// outlives this process: that of process 1, or of the farthest ancestor whose namespace
// may be entered. "ip netns exec" runs its child in a new mount namespace, whose mounts
// end with it. A service of systemd with ProtectSystem has one, too, and may enter no
// other: it sees the mount that a unit made for the machine.
func PreparePins(root string) (Pins, error) {
	path := filepath.Join(root, "bpf")
	for _, ns := range outerMountNamespaces() {
		if ns.own {
			return Pins{root: path}, mountBPF(path)
		}
		if pins, err := mountIn(ns.path, path); err == nil {
			return pins, nil
		}
	}
	err := mountBPF(path)
	return Pins{root: path, Private: err == nil && !mountedOutside(path)}, err
}

// mountedOutside reports whether the file system at path is mounted there in an outer mount
// namespace, too, so that it outlives this one.
func mountedOutside(path string) bool {
	var here unix.Stat_t
	if unix.Stat(path, &here) != nil {
		return false
	}
	device := fmt.Sprintf("%d:%d", unix.Major(here.Dev), unix.Minor(here.Dev))
	return slices.ContainsFunc(ancestors(), func(pid int) bool { return mountsAt(pid, path, device) })
}

// mountsAt reports whether a process sees the file system of a device at path. The mount
// that is above all others there is the last.
func mountsAt(pid int, path, device string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return false
	}
	seen := ""
	for line := range strings.Lines(string(b)) {
		// id, parent, major:minor, root, mount point: proc_pid_mountinfo(5)
		if fields := strings.Fields(line); len(fields) > 4 && fields[3] == "/" && fields[4] == path {
			seen = fields[2]
		}
	}
	return seen == device
}

// mountIn mounts the BPF file system in another mount namespace. Where that
// mount is not seen in this one, pins are reached through an open directory,
// for as long as this process lives.
func mountIn(ns, path string) (Pins, error) {
	fd := -1
	err := inMountNamespace(ns, func() (err error) {
		if err = mountBPF(path); err == nil {
			fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		return Pins{}, err
	}
	through := fmt.Sprintf("/proc/self/fd/%d", fd)
	if sameFile(path, through) {
		unix.Close(fd)
		return Pins{root: path}, nil
	}
	return Pins{root: through}, nil
}

func sameFile(a, b string) bool {
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(first, second)
}

// mountNamespace is the mount namespace of another process.
type mountNamespace struct {
	pid  int
	path string
	own  bool // this process is in it, too
}

// outerMountNamespaces lists the mount namespaces of process 1 and of this process's
// ancestors, the farthest first.
func outerMountNamespaces() []mountNamespace {
	own := mountIDs("self")
	var list []mountNamespace
	for _, pid := range ancestors() {
		ns := mountNamespace{pid: pid, path: fmt.Sprintf("/proc/%d/ns/mnt", pid)}
		// An agent with fewer capabilities than process 1 may not inspect that
		// process's namespaces, but may read its mounts, whose ids are unique.
		for id := range mountIDs(strconv.Itoa(pid)) {
			ns.own = ns.own || own[id]
		}
		list = append(list, ns)
	}
	return list
}

// mountIDs returns the ids of the mounts that a process sees, none when they may not be
// read.
func mountIDs(process string) map[string]bool {
	b, err := os.ReadFile(filepath.Join("/proc", process, "mountinfo"))
	if err != nil {
		return nil
	}
	ids := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		id, _, _ := strings.Cut(line, " ")
		ids[id] = true
	}
	return ids
}

// ancestors are process 1 and this process's ancestors, the farthest first.
func ancestors() []int {
	var list []int
	for pid := os.Getppid(); pid > 1; {
		list = append(list, pid)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			break
		}
		_, parent, _ := strings.Cut(string(status), "\nPPid:")
		next, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(parent, "\n", 2)[0]))
		if err != nil || slices.Contains(list, next) {
			break
		}
		pid = next
	}
	list = append(list, 1)
	slices.Reverse(list)
	return list
}

// inMountNamespace calls fn in another mount namespace. The thread ends with the call:
// a thread that left its file system attributes and mount namespace must run no other
// goroutine.
func inMountNamespace(path string, fn func() error) error {
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
			done <- fmt.Errorf("enter a mount namespace: %w", err)
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
		return problem.Wrap(
			fmt.Errorf("mount a BPF file system at %s: %w", path, err),
			fmt.Sprintf("mount it at boot (mount -t bpf bpf %s), or give the agent CAP_SYS_ADMIN", path),
		)
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

// findPins finds the pins of an instance; it mounts nothing.
func findPins(root string, instance api.Instance) (pins string, found bool, err error) {
	path := filepath.Join(root, "bpf")
	candidates := []string{path}
	for _, ns := range outerMountNamespaces() {
		candidates = append(candidates, filepath.Join("/proc", strconv.Itoa(ns.pid), "root", path))
	}
	for _, candidate := range candidates {
		pins := filepath.Join(candidate, instance.ID)
		_, stat := os.Stat(pins)
		if stat == nil {
			if isBPF, err := isBPFFS(pins); err == nil && isBPF {
				return pins, true, nil
			}
		} else if errors.Is(stat, fs.ErrPermission) && candidate == path {
			err = asRoot(fmt.Errorf("look for the state of earlier agents: %w", stat))
		}
	}
	return "", false, err
}
