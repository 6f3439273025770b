// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
)

// endPoll is how often WaitEnded checks.
const endPoll = 20 * time.Millisecond

// WaitEnded waits until no agent holds an instance.
func WaitEnded(ctx context.Context, instance api.Instance) error {
	for {
		held, err := Held(instance)
		if err != nil || !held {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent has not stopped: %w", ctx.Err())
		case <-time.After(endPoll):
		}
	}
}

// Held reports whether an agent of an instance runs, starts or ends.
func Held(instance api.Instance) (bool, error) {
	f, err := os.Open(instance.LockFile())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Shared, so that several can wait. An agent that starts at this moment is refused,
	// so the lock is released at once.
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// Removal is the result of removing the data plane.
type Removal struct {
	Warnings []health.Warning
	Err      error
}

// Removable is what a removal needs of a data plane; *datapath.Datapath implements and
// documents it.
type Removable interface {
	Decapsulations() ([]netip.Addr, error)
	Remove() error
	AwaitLeft()
}

// RemoveFrom removes a data plane, and warns of tunnels that depended on it.
func RemoveFrom(d Removable) Removal {
	ends, unknown := d.Decapsulations()
	if err := d.Remove(); err != nil {
		return Removal{Err: err}
	}
	return Removal{Warnings: health.RemovedTunnelEnds(ends, unknown)}
}

// Remove removes the data plane that an ended agent of an instance has left, and warns of
// tunnels that depended on it. It reports false when there is none.
func Remove(instance api.Instance, open func(pins string) (Removable, error)) (bool, []health.Warning, error) {
	pins, ok, err := findPins(api.Root, instance)
	if err != nil {
		return false, nil, err
	}
	if _, err := os.Stat(instance.Dir); !ok && errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	held, err := Hold(instance)
	if err != nil {
		return false, nil, err
	}
	var r Removal
	if ok {
		d, err := open(pins)
		if err == nil {
			defer d.AwaitLeft()
			r = RemoveFrom(d)
			err = r.Err
		}
		if err != nil {
			held.Release()
			return false, nil, fmt.Errorf("remove the data plane at %s: %w", pins, err)
		}
	}
	return ok, r.Warnings, held.Clear()
}

// Left names the interfaces of this network namespace whose packets the programs of an
// ended agent still process, none where that is unknown.
func Left(instance api.Instance) []string {
	if held, err := Held(instance); held || err != nil {
		return nil // an agent runs, or is about to
	}
	pins, ok, err := findPins(api.Root, instance)
	if !ok || err != nil {
		return nil
	}
	attached, err := datapath.Attached(pins)
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range attached {
		name := i.Name
		if name == "" {
			name = "interface " + strconv.FormatUint(uint64(i.Index), 10)
		}
		names = append(names, name)
	}
	return names
}
