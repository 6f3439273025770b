// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// endedName is the name of the empty program of a tcx hook that is being left.
const endedName = "waymark_ended"

// NewEmpty loads the empty program of hooks that are left.
func NewEmpty() (*ebpf.Program, error) { return neutral(endedName) }

// End ends the treatment by a program, and removes its pin. It returns the link that is to be
// detached, with an empty program, or nil when the program is off its hook.
func (a *Hook) End(empty *ebpf.Program) (link.Link, error) {
	defer a.Release()
	if a.Mode != TCX || empty == nil || a.link.Update(empty) != nil {
		return nil, a.Detach()
	}
	return a.link, a.link.Unpin()
}

// DetachLink takes a link off its hook. An interface that was deleted took its programs along.
func DetachLink(l link.Link) error {
	err := l.Detach()
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOLINK) {
		err = nil
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return fmt.Errorf("detach a program: %w", err)
	}
	return nil
}
