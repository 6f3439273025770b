// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"slices"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// advice selects the warnings about a change, which the answer to it includes. It is
// nil for changes that can cause none: a diagnosis checks every interface and tunnel,
// and takes longer than many changes.
type advice func(health.Warning) bool

// ofEncapsulation selects warnings about a rule: its mode, because inline is iproute2's
// default and not meant for routers; its Direct Exports, where they would be inserted
// into exports; options that it inserts without this node's data; and an earlier rule
// that matches all of its packets.
func ofEncapsulation(e config.Encapsulation) advice {
	exporting := slices.ContainsFunc(e.Options, func(o config.Option) bool { return o.DirectExport != nil })
	return func(w health.Warning) bool {
		return exporting && w.Code == health.CollectorsUnknown ||
			health.IsShadowed(w, e.Name) ||
			e.Mode == model.ModeInline && w.Equal(health.InlineOnRouter(e.Name, e.Interface)) ||
			health.IsUnfilled(w, e.Name)
	}
}

// ofEnds selects warnings about tunnels and traces that are configured to end at the
// node, but cannot.
func ofEnds(w health.Warning) bool { return w.Code == health.DecapUnreached }

// ofExport selects warnings about what a namespace exports: that its postcards go nowhere, and that
// the limit allows few of those that "every" asks for.
func ofExport(w health.Warning) bool {
	return w.Code == health.ExportsUnsent || w.Code == health.ExportsLimited
}

// exporting answers a change of a namespace that exports, with the warnings about that.
func (a *Agent) exporting(w http.ResponseWriter, err error, export model.ExportMode) error {
	if err != nil || export == model.ExportNone {
		return service.Done(w, err)
	}
	return a.changed(w, nil, "", ofExport)
}

// changed answers a change that is in force, with the warnings about it.
func (a *Agent) changed(w http.ResponseWriter, err error, name string, about advice, more ...health.Warning) error {
	if err != nil {
		return err
	}
	var ws []health.Warning
	if about != nil {
		ws = slices.DeleteFunc(a.diagnosis(), func(w health.Warning) bool { return !about(w) })
	}
	service.Answer(w, http.StatusOK, api.Changed{Name: name, Warnings: append(service.NonNil(ws), more...)})
	return nil
}
