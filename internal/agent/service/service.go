// SPDX-License-Identifier: Apache-2.0

// Package service has what the services of an agent have in common: their interface, the
// configuration that is in force and its changes, periodic work, requests of the API, and the
// machine that they run on.
package service

import (
	"context"
	"net/http"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// Service is one task of an agent. Each has its own file and a line in the agent's list,
// embeds [Idle], and defines only the methods that it needs.
type Service interface {
	// Open is called once, before the first configuration.
	Open() error
	// Prepare gets ready for another configuration, without a change to the running
	// one. It adds to the plan what to do when the plan is committed or abandoned.
	Prepare(*Plan) error
	// Run works until the context ends. An error ends the agent.
	Run(context.Context) error
	// Close is called once, after Run has ended, while the data plane is still
	// open. removing reports whether it will be removed.
	Close(removing bool)

	// Collect adds the service's metrics.
	Collect(*metrics.Gatherer)
	// Warnings are the service's current problems.
	Warnings(*State) []health.Warning
	// Report fills in the service's part of the status.
	Report(*State, *api.Status)
	// Routes are the API requests that the service answers.
	Routes() Routes
}

// Handler answers a request of the API, or says why not.
type Handler func(http.ResponseWriter, *http.Request) error

// Routes are requests of the API with their handlers, by pattern.
type Routes map[string]Handler

// Idle is a service that does nothing.
type Idle struct{}

func (Idle) Open() error                      { return nil }
func (Idle) Prepare(*Plan) error              { return nil }
func (Idle) Run(context.Context) error        { return nil }
func (Idle) Close(bool)                       {}
func (Idle) Collect(*metrics.Gatherer)        {}
func (Idle) Warnings(*State) []health.Warning { return nil }
func (Idle) Report(*State, *api.Status)       {}
func (Idle) Routes() Routes                   { return nil }
