// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/dryrun"
)

// DryRun says what a file would do to the packets that pass this network namespace in a time,
// in mode full. No program is loaded, and nothing is left.
func DryRun(ctx context.Context, file string, watched time.Duration, ready func()) (dryrun.Report, error) {
	host := service.Kernel{}
	text, err := config.Read(file)
	if err != nil {
		return dryrun.Report{}, err
	}
	c, err := config.ParseFor(host, file, text)
	if err != nil {
		return dryrun.Report{}, err
	}
	c.Node.Mode = config.ModeFull
	resolved, err := c.Resolve(host)
	if err != nil {
		return dryrun.Report{}, err
	}
	return dryrun.Watch(ctx, dryrun.Options{Node: resolved.Node, IsOwn: host.OwnAddresses(), For: watched, Ready: ready})
}
