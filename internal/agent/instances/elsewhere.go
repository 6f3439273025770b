// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
)

// NamespaceDirectory has the network namespaces that have names, as 'ip netns' keeps them.
const NamespaceDirectory = "/run/netns"

// mostNamespaces bounds what is looked at: a machine may have many containers.
const mostNamespaces = 4096

// Other is a running agent of another network namespace.
type Other struct {
	Instance  api.Instance
	Namespace string // its name for 'ip netns', or ""
}

// Elsewhere finds the running agents of other network namespaces, as far as the caller may know. root has
// the agents' directories, and named the namespaces that have names.
func Elsewhere(root, named string, own api.Instance) (list []Other) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var names map[uint64]string
	for _, entry := range entries[:min(len(entries), mostNamespaces)] {
		id, ok := strings.CutPrefix(entry.Name(), api.InstancePrefix)
		cookie, err := strconv.ParseUint(id, 10, 64)
		if instance := api.At(root, cookie); ok && err == nil && instance != own {
			if held, err := Held(instance); !held || err != nil {
				continue
			}
			if names == nil {
				names = namesOfNamespaces(named)
			}
			list = append(list, Other{Instance: instance, Namespace: names[namespaceOf(instance)]})
		}
	}
	return list
}

// namespaceOf is the inode of the network namespace of a running agent, 0 if it cannot be known.
func namespaceOf(instance api.Instance) uint64 {
	pid, err := os.ReadFile(instance.LockFile())
	if err != nil {
		return 0
	}
	return inodeOf(filepath.Join("/proc", filepath.Base(strings.TrimSpace(string(pid))), "ns", "net"))
}

func namesOfNamespaces(directory string) map[uint64]string {
	names := map[uint64]string{}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return names
	}
	for _, entry := range entries[:min(len(entries), mostNamespaces)] {
		if of := inodeOf(filepath.Join(directory, entry.Name())); of != 0 && names[of] == "" {
			names[of] = entry.Name()
		}
	}
	return names
}

func inodeOf(path string) uint64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0
	}
	return s.Ino
}
