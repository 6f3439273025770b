// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// own are the programs of this process in tcx besides those of a [Hook], which leave every packet to the next
// program, and how often they changed each hook: looks do not take that for changes of others.
var own = ownPrograms{programs: make(map[ebpf.ProgramID]int), changes: make(map[hookOf]uint64)}

type ownPrograms struct {
	mu       sync.RWMutex
	programs map[ebpf.ProgramID]int // on how many hooks
	changes  map[hookOf]uint64
}

// hookOf is one tcx hook.
type hookOf struct {
	index   model.IfIndex
	ingress bool
}

// AttachOwn calls attach, which puts a program of this process on a tcx hook. It counts that as one change of
// the hook by this process. The program must leave every packet to the next one.
func AttachOwn(index model.IfIndex, ingress bool, program *ebpf.Program, attach func() error) error {
	info, err := program.Info()
	if err != nil {
		return fmt.Errorf("look up a program's id: %w", err)
	}
	id, ok := info.ID()
	if !ok {
		return errors.New("the kernel does not say the id of a program")
	}
	return own.change(hookOf{index, ingress}, id, 1, attach)
}

// DetachOwn calls detach, which takes such a program off its hook, and counts that as one change, too.
func DetachOwn(index model.IfIndex, ingress bool, program *ebpf.Program, detach func() error) error {
	var id ebpf.ProgramID
	if info, err := program.Info(); err == nil {
		id, _ = info.ID()
	}
	return own.change(hookOf{index, ingress}, id, -1, detach)
}

// change makes a change and counts it. Looks wait meanwhile, so none sees one without the other.
func (o *ownPrograms) change(hook hookOf, id ebpf.ProgramID, hooks int, do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	o.changes[hook]++
	if o.programs[id] += hooks; o.programs[id] <= 0 {
		delete(o.programs, id)
	}
	return nil
}
