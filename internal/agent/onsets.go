// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
)

// onsets knows since when there has been each warning. It looks regularly, because nobody may ask.
type onsets struct {
	service.Idle
	*core
	diagnose func() []health.Warning

	mu    sync.Mutex
	known health.Onsets
}

func (o *onsets) Run(ctx context.Context) error {
	o.tasks.Every(ctx, service.SamplePeriod, func() { o.diagnose() })
	return nil
}

// date says of all warnings that there are now since when.
func (o *onsets) date(ws []health.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known.Look(ws, time.Now())
}
