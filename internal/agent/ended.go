// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
)

// endPoll is how often WaitEnded looks.
const endPoll = 20 * time.Millisecond

// WaitEnded waits until no agent holds a place.
func WaitEnded(ctx context.Context, place api.Place) error {
	for {
		held, err := isHeld(place)
		if err != nil || !held {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent has not ended: %w", ctx.Err())
		case <-time.After(endPoll):
		}
	}
}

func isHeld(place api.Place) (bool, error) {
	f, err := os.Open(place.LockFile())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Shared: those who wait do not stand in each other's way. An agent that
	// starts in this very moment is refused, so the lock is given up at once.
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
