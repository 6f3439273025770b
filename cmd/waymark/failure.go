// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
)

// Exit codes, part of the command line's contract.
const (
	exitOK          = 0   // done
	exitFailure     = 1   // what was asked for failed, or a check found faults
	exitUsage       = 2   // the command line itself is wrong; nothing was done
	exitNoExec      = 126 // the command for a lab's node may not be executed, as shells say it
	exitNotFound    = 127 // there is no such command for a lab's node, as shells say it
	exitInterrupted = 130 // Ctrl-C, as shells say it: 128 and the signal's number
)

// usageError marks an error that the command line causes by itself.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usagef makes an error that ends the program with exitUsage.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// commandError marks an error of finding the command for a lab's node.
type commandError struct{ err error }

func (e commandError) Error() string { return e.err.Error() }
func (e commandError) Unwrap() error { return e.err }

// code is the exit code that a shell would end with.
func (e commandError) code() int {
	if errors.Is(e.err, fs.ErrPermission) {
		return exitNoExec
	}
	return exitNotFound
}

// errReported ends the program with exitFailure when the result that was printed
// says what is wrong.
var errReported = errors.New("the result has it")

// notedError is an error whose particulars are on standard error already, one
// after the other.
type notedError struct{ summary string }

func (e notedError) Error() string { return e.summary }

// failure is what --json prints of an error. Other results of commands that fail
// have these keys and more.
type failure struct {
	Kind   string        `json:"kind"` // always "error"
	OK     bool          `json:"ok"`   // always false
	Error  string        `json:"error"`
	Faults config.Faults `json:"faults,omitempty"` // of a file or a request, each once more with its place
}

func newFailure(err error) failure {
	f := failure{Kind: "error", Error: err.Error()}
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

// done ends a command that has no result but that it did what was asked.
func (o *options) done(out io.Writer, err error) error {
	if err != nil || !o.json {
		return err
	}
	return printJSON(out, struct {
		OK bool `json:"ok"`
	}{true})
}

// withoutJSON refuses --json for a command whose result is a document in
// another language.
func (o *options) withoutJSON(result string) error {
	if !o.json {
		return nil
	}
	return usagef("%s has no form in JSON; leave --json out", result)
}

// wantsJSON reports whether an error shall be an object: also where flags were
// not read because the command line is wrong.
func (o *options) wantsJSON(args []string, err error) bool {
	if usage := (usageError{}); o.json || !errors.As(err, &usage) {
		return o.json
	}
	wanted := false
	for _, arg := range args {
		value, ok := strings.CutPrefix(arg, "--json")
		switch {
		case arg == "--":
			return wanted
		case ok && value == "":
			wanted = true
		case ok && value[0] == '=':
			wanted, _ = strconv.ParseBool(value[1:])
		}
	}
	return wanted
}

// conclude says what went wrong, and gives the exit code. With --json, an error
// is the last object on standard output; an interruption is no error.
func (o *options) conclude(ctx context.Context, args []string, err error, stdout, stderr io.Writer) int {
	err = o.withoutAgent(err)
	code := exitCodeOf(ctx, err)
	lines := []string{fmt.Sprintf("waymark: %v", err)}
	var noted notedError
	var faults config.Faults
	var topology *lab.Faults
	switch {
	case code == exitOK, errors.Is(err, errReported):
		return code
	case code == exitInterrupted:
		said := interruption(err)
		fmt.Fprintf(stderr, "waymark: %s\n", said[0])
		if said = said[1:]; len(said) == 0 {
			return code
		}
		err, lines = errors.New(strings.Join(said, "\n")), nil
		for _, line := range said {
			lines = append(lines, "waymark: "+line)
		}
	case errors.As(err, &noted):
		lines = nil
	case errors.As(err, &faults), errors.As(err, &topology): // one per line, as compilers do
		lines = []string{err.Error()}
	}
	if o.wantsJSON(args, err) && printJSON(stdout, newFailure(err)) == nil {
		return code
	}
	for _, line := range lines {
		fmt.Fprintln(stderr, line)
	}
	return code
}

func exitCodeOf(ctx context.Context, err error) int {
	var usage usageError
	var command commandError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailure
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &command):
		return command.code()
	}
	return exitFailure
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
