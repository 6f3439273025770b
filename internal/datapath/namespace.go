// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// A network namespace lives as long as anything holds it: a process, a mount,
// an open file or socket of anybody. What tells its end for certain is its
// loopback interface, which can be neither deleted nor moved elsewhere. A
// device map forgets an interface that goes, and does not keep it from going.
// No program reads this map.
const mapLoopback = "loopback"

// loopbackIndex is the same in every network namespace.
const loopbackIndex = uint32(1)

// pinLoopback lets NamespaceGone tell later whether the network namespace of
// the calling thread still exists.
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
	if err := m.Pin(path); err != nil { // filled before: without an entry it tells an end
		return fmt.Errorf("pin map %s: %w", path, err)
	}
	return nil
}

// NamespaceGone tells whether the network namespace whose data plane was
// pinned at a path no longer exists. Where that is not known, it is false.
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
