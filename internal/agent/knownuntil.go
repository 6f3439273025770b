// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/measure"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// knownUntil is until when all times are noted in which packets may have passed this node
// without its programs. What was counted later may turn out not to be complete.
type knownUntil struct {
	*core
	hooks    *hooks
	unserved *measure.UnservedInterfaces

	mu         sync.Mutex // while it looks
	nextClsact int        // of the clsact hooks that are looked at next
}

// Look looks at the hooks, of clsact at those of some interfaces at most, and compares their
// packets with those of the devices. Repairs are left to the watch of the hooks.
func (k *knownUntil) Look(most int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state.Load() == nil {
		return
	}
	now, served := time.Now(), k.hooks.served()
	reattach, reposition := k.hooks.recordStates(served, k.datapath.Hooks(k.selection(most)), now)
	for _, each := range append(reattach, reposition...) {
		select {
		case k.hooks.changed <- each.Index:
		default: // it looks itself
		}
	}
	k.hooks.count(now)
}

func (k *knownUntil) selection(most int) func(model.IfIndex, datapath.AttachMode) bool {
	served := k.state.Load().Resolved.Node.Interfaces
	if len(served) <= most {
		return func(model.IfIndex, datapath.AttachMode) bool { return true }
	}
	turn := make(map[model.IfIndex]bool, most)
	for range most {
		k.nextClsact = (k.nextClsact + 1) % len(served)
		turn[served[k.nextClsact].Index] = true
	}
	return func(index model.IfIndex, mode datapath.AttachMode) bool {
		return mode != datapath.AttachClsact || turn[index]
	}
}

// executed is until when gaps of hooks are noted, not after now.
func (h *hooks) executed(now time.Time, quiet time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watch.Known(now, quiet)
}

// NotedUntil is until when all times are noted, not after now, in which packets may have passed the
// programs of served interfaces. A hook that counts nothing for the quiet time counts as idle.
func (k *knownUntil) NotedUntil(now time.Time, quiet time.Duration) time.Time {
	if since := k.changing.Since(); !since.IsZero() && since.Before(now) {
		now = since
	}
	return k.hooks.executed(now, quiet)
}

// unknown is why packets may have passed uncounted until a time, which is not known yet; 0: all
// such times are noted.
func (k *knownUntil) unknown(until time.Time, quiet time.Duration) (why loss.Reasons) {
	if since := k.changing.Since(); !since.IsZero() && !since.After(until) {
		why |= loss.InterfacesChanged
	}
	if k.hooks.executed(until, quiet).Before(until) {
		why |= loss.NotExecuted
	}
	if k.unserved.NotedUntil(until).Before(until) {
		why |= loss.UnservedInterface
	}
	return why
}

// Await looks again and again until all gaps before a time are noted, or until an end. A hook that
// counts nothing for two pauses counts as idle. The result is what is still unknown.
func (k *knownUntil) Await(ctx context.Context, until, end time.Time, pause time.Duration) loss.Reasons {
	for {
		k.Look(len(k.state.Load().Resolved.Node.Interfaces))
		why := k.unknown(until, 2*pause)
		if why == 0 || time.Now().Add(pause).After(end) || !service.Sleep(ctx, pause) {
			return why
		}
	}
}
