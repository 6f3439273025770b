// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
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

// failure is an error as --json prints it.
type failure struct {
	commandline.Failure
	Faults config.Faults `json:"faults,omitempty"` // of a topology's file, repeated with their places
}

func newFailure(err error) failure {
	f := failure{Failure: commandline.NewFailure(err)}
	var topology *lab.Faults
	if errors.As(err, &topology) {
		for _, fault := range topology.Faults {
			f.Faults = append(
				f.Faults,
				&config.Fault{File: topology.File, Line: fault.Line, Column: fault.Column, Problem: fault.Text, Cure: fault.Cure},
			)
		}
	}
	return f
}

// text is an error as printed on standard error.
func text(err error) []string {
	var topology *lab.Faults
	if errors.As(err, &topology) { // one per line, as in compilers
		return []string{err.Error()}
	}
	return []string{fmt.Sprintf("waymark-lab: %v", err)}
}
