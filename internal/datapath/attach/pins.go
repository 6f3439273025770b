// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/link"

	"github.com/waymark-net/waymark/internal/model"
)

const interfacePrefix = "interface_"

// PinnedInterfaces are the interfaces with pins.
func PinnedInterfaces(pinPath string) ([]model.IfIndex, error) {
	entries, err := os.ReadDir(pinPath)
	if err != nil {
		return nil, fmt.Errorf("read the pins: %w", err)
	}
	var list []model.IfIndex
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), interfacePrefix)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(number, 10, 32); err == nil {
			list = append(list, model.IfIndex(n))
		}
	}
	slices.Sort(list)
	return list, nil
}

// IsAttached reports whether a program that was pinned in a directory is on its hook now.
func IsAttached(directory string, index model.IfIndex, ingress bool, mode Mode) bool {
	a := Hook{index: index, Ingress: ingress, Mode: mode}
	if mode != Clsact {
		pin := filepath.Join(directory, a.pinName())
		l, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			return false
		}
		a.link = l
		defer l.Close()
	}
	return a.Alive()
}

// Directory is where the pins of an interface are.
func Directory(pinPath string, index model.IfIndex) string {
	return filepath.Join(pinPath, interfacePrefix+strconv.FormatUint(uint64(index), 10))
}

// Mode says which hook handles the packets that arrive at an interface.
type Mode string

// The modes of attachment. Auto uses the first of the others that the kernel and
// the driver support.
const (
	Auto   Mode = "auto"
	XDP    Mode = "xdp"
	TCX    Mode = "tcx"
	Clsact Mode = "clsact"
	TC     Mode = "tc" // the first of tcx and clsact
)
