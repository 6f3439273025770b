// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
)

// notedError is an error whose details are already on standard error, one per line.
type notedError struct{ summary string }

func (e notedError) Error() string { return e.summary }

// failure is an error as --json prints it.
type failure struct {
	commandline.Failure
	Faults config.Faults `json:"faults,omitempty"` // of a file or a request, repeated with their places
}

func newFailure(err error) failure {
	f := failure{Failure: commandline.NewFailure(err)}
	var refused *api.Error
	switch {
	case errors.As(err, &f.Faults):
	case errors.As(err, &refused):
		f.Faults = refused.Faults
	}
	return f
}

// text is an error as printed on standard error.
func text(err error) []string {
	var noted notedError
	var faults config.Faults
	switch {
	case errors.As(err, &noted):
		return nil
	case errors.As(err, &faults): // one per line, as in compilers
		return []string{err.Error()}
	}
	return []string{fmt.Sprintf("waymark: %v", err)}
}

// newOptions are the options of a program without a default agent.
func newOptions() *options {
	return &options{Options: commandline.Options{Failure: func(err error) any { return newFailure(err) }, Text: text}}
}

// withoutAgent adds to the error that no agent answers: what still runs without one, or
// that --socket names none.
func (o *options) withoutAgent(err error) error {
	if !errors.Is(err, api.ErrNoAgent) {
		return err
	}
	if o.socket != "" {
		return problem.New(
			fmt.Sprintf("no agent answers at %s", o.socket),
			"name the socket of a running agent, or omit --socket to ask the agent of this network namespace",
		)
	}
	if left := o.interfacesLeft(); len(left) > 0 {
		w := health.EndedAgent(left)
		return problem.New(w.Text, w.Cure)
	}
	if others := o.elsewhere(); others != "" {
		return fmt.Errorf("%w%s", err, others)
	}
	return err
}
