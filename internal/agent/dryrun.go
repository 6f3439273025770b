// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/dryrun"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// DryReport is what a dry run found: what would have become of the packets that passed, and what
// would not fit the MTUs of interfaces.
type DryReport struct {
	dryrun.Report
	Warnings []health.Warning `json:"warnings"`
}

// DryRun says what a file would do to the packets that pass this network namespace in a time,
// in mode full. No program is loaded, and nothing is left.
func DryRun(ctx context.Context, file string, watched time.Duration, ready func()) (DryReport, error) {
	host := service.Kernel{}
	text, err := config.Read(file)
	if err != nil {
		return DryReport{}, err
	}
	c, err := config.ParseFor(host, file, text)
	if err != nil {
		return DryReport{}, err
	}
	c.Node.Mode = config.ModeFull
	resolved, err := c.Resolve(host)
	if err != nil {
		return DryReport{}, err
	}
	report, err := dryrun.Watch(ctx, dryrun.Options{Node: resolved.Node, IsOwn: host.OwnAddresses(), For: watched, Ready: ready})
	return DryReport{report, service.NonNil(planned(resolved.Node))}, err
}

// planned warns of the encapsulations of a node that would not fit the MTUs of its interfaces.
func planned(node model.NodeConfig) []health.Warning {
	var interfaces []health.Interface
	for _, i := range node.Interfaces {
		interfaces = append(interfaces, health.Interface{Name: i.Name, MTU: i.MTU})
	}
	return health.PlannedMTU(interfaces, insertions(node.Encapsulations, node.Interfaces))
}
