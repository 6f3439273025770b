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
	exitNoExec   = 126 // the command for a lab's node may not be executed, as shells say it
	exitNotFound = 127 // there is no such command for a lab's node, as shells say it
)

// commandError marks an error of finding the command for a lab's node.
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

// notedError is an error whose particulars are on standard error already, one
// after the other.
type notedError struct{ summary string }

func (e notedError) Error() string { return e.summary }

// failure is what --json prints of an error.
type failure struct {
	commandline.Failure
	Faults config.Faults `json:"faults,omitempty"` // of a file or a request, each once more with its place
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

// text is an error as standard error gets it.
func text(err error) []string {
	var noted notedError
	var faults config.Faults
	var topology *lab.Faults
	switch {
	case errors.As(err, &noted):
		return nil
	case errors.As(err, &faults), errors.As(err, &topology): // one per line, as compilers do
		return []string{err.Error()}
	}
	return []string{fmt.Sprintf("waymark: %v", err)}
}

// newOptions are the options of a program that finds no agent by itself.
func newOptions() *options {
	return &options{Options: commandline.Options{Failure: func(err error) any { return newFailure(err) }, Text: text}}
}

// withoutAgent says more of it than that no agent answers: what goes on without
// one, or that --socket names none.
func (o *options) withoutAgent(err error) error {
	if !errors.Is(err, api.ErrNoAgent) {
		return err
	}
	if o.socket != "" {
		return fmt.Errorf("no agent answers at %s; name the socket of an agent that runs, or leave --socket out to ask the agent of this network namespace", o.socket)
	}
	if left := o.left(); len(left) > 0 {
		w := health.EndedAgent(left)
		return fmt.Errorf("%s; %s", w.Text, w.Cure)
	}
	return err
}
