// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
)

// Exit codes besides those of all programs.
const (
	exitNoExec   = 126 // as in shells: the command for a lab's node may not be executed
	exitNotFound = 127 // as in shells: there is no such command for a lab's node
)

// commandError marks an error in finding the command for a lab's node.
type commandError struct{ err error }

func (e commandError) Error() string { return e.err.Error() }
func (e commandError) Unwrap() error { return e.err }

// ExitCode is the exit code that a shell would end with.
func (e commandError) ExitCode() int {
	if errors.Is(e.err, fs.ErrPermission) {
		return exitNoExec
	}
	return exitNotFound
}

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
	var topology *lab.Faults
	switch {
	case errors.As(err, &f.Faults):
	case errors.As(err, &refused):
		f.Faults = refused.Faults
	case errors.As(err, &topology):
		for _, fault := range topology.Faults {
			problem, cure, _ := strings.Cut(fault.Text, "; ")
			f.Faults = append(f.Faults, &config.Fault{File: topology.File, Line: fault.Line, Column: fault.Column, Problem: problem, Cure: cure})
		}
	}
	return f
}

// text is an error as printed on standard error.
func text(err error) []string {
	var noted notedError
	var faults config.Faults
	var topology *lab.Faults
	switch {
	case errors.As(err, &noted):
		return nil
	case errors.As(err, &faults), errors.As(err, &topology): // one per line, as in compilers
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
		return fmt.Errorf("no agent answers at %s; name the socket of a running agent, or omit --socket to ask the agent of this network namespace", o.socket)
	}
	if left := o.left(); len(left) > 0 {
		w := health.EndedAgent(left)
		return fmt.Errorf("%s; %s", w.Text, w.Cure)
	}
	return err
}
