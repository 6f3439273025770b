// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
)

// links keeps the data plane attached to the interfaces that exist.
type links struct {
	service.Idle
	*core
	refresh func() error
	changed func() // tells who else follows the interfaces
}

// Interfaces come and go in bursts: one refresh runs settleTime after the first change.
// A refresh that fails is repeated.
const (
	settleTime = 100 * time.Millisecond
	retryTime  = time.Second
)

func (l *links) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- l.system.WatchLinks(ctx, l.noteChange) }()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-l.wake:
		}
		if !service.Sleep(ctx, settleTime) {
			return nil
		}
		err := l.refresh()
		if err == nil {
			logged = ""
			continue
		}
		if text := err.Error(); text != logged { // it is tried again every second
			l.logEach(slog.LevelWarn, "the change of interfaces or ids is not in force yet", err)
			logged = text
		}
		time.AfterFunc(retryTime, l.requestResolve)
	}
}

// noteChange wakes the refresh. It remembers when it first noticed a change that is not in force
// yet, because packets may have come uncounted since.
func (l *links) noteChange() {
	l.changing.Noticed()
	l.changed()
	l.requestResolve()
}
