// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// A network namespace lives as long as anything holds it: a process, a mount, or
// any process's open file or socket. The reliable sign of its end is its loopback
// interface, which can be neither deleted nor moved. A device map drops the entry
// of a deleted interface, and does not keep the interface alive. No program reads
// this map.
const mapLoopback = "loopback"

// loopbackIndex is the same in every network namespace.
const loopbackIndex = uint32(1)

// pinLoopback lets NamespaceGone find out later whether the calling thread's
// network namespace still exists.
func pinLoopback(pinPath string) error {
	path := filepath.Join(pinPath, mapLoopback)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: mapLoopback, Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("create map %s: %w", mapLoopback, err)
	}
	defer m.Close()
	if err := m.Put(uint32(0), loopbackIndex); err != nil {
		return fmt.Errorf("fill map %s: %w", mapLoopback, err)
	}
	if err := m.Pin(path); err != nil { // filled before it is pinned: an empty map means that the namespace is gone
		return fmt.Errorf("pin map %s: %w", path, err)
	}
	return nil
}

// NamespaceGone reports whether the network namespace whose data plane was pinned
// at a path no longer exists. It is false when that is unknown.
func NamespaceGone(pinPath string) (bool, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pinPath, mapLoopback), nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the pins of a network namespace: %w", err)
	}
	defer m.Close()
	var index uint32
	err = m.Lookup(uint32(0), &index)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return true, nil
	}
	return false, err
}
