// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/journal"
)

// Exit codes, part of the command line's contract.
const (
	ExitOK          = 0   // done
	ExitFailure     = 1   // what was asked for failed, or a check found errors
	ExitUsage       = 2   // the command line itself is wrong; nothing was done
	ExitInterrupted = 130 // Ctrl-C, as shells say it: 128 and the signal's number
)

// UsageError marks an error that the command line causes by itself.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.err }

// Usage makes an error end the program with ExitUsage.
func Usage(err error) error { return UsageError{err} }

// Usagef is Usage of an error without a cure of its own.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// ErrReported ends the program with ExitFailure when the result that was printed
// says what is wrong.
var ErrReported = errors.New("the result has it")

// Failure is what --json prints of an error. Results of commands that fail have
// these keys and more.
type Failure struct {
	Kind  string `json:"kind"` // always "error"
	OK    bool   `json:"ok"`   // always false
	Error string `json:"error"`
}

// NewFailure is the failure of an error.
func NewFailure(err error) Failure { return Failure{Kind: "error", Error: err.Error()} }

// conclude prints what went wrong, and gives the exit code. With --json, an error
// is the last object on standard output; an interruption is no error.
func (o *Options) conclude(ctx context.Context, args []string, err error, stdout, stderr io.Writer) int {
	code := exitCode(ctx, err)
	var lines []string
	switch {
	case code == ExitOK, errors.Is(err, ErrReported):
		return code
	case code == ExitInterrupted:
		said := interruption(err)
		fmt.Fprintf(stderr, "%s: %s\n", o.program, said[0])
		if said = said[1:]; len(said) == 0 {
			return code
		}
		err = errors.New(strings.Join(said, "\n"))
		for _, line := range said {
			lines = append(lines, o.program+": "+line)
		}
	case o.Text != nil:
		lines = o.Text(err)
	default:
		lines = []string{fmt.Sprintf("%s: %v", o.program, err)}
	}
	if o.wantsJSON(args, err) && PrintJSON(stdout, o.failure(err)) == nil {
		return code
	}
	if code != ExitInterrupted {
		stderr = journal.Lines(stderr, journal.Error)
	}
	for _, line := range lines {
		fmt.Fprintln(stderr, line)
	}
	return code
}

func (o *Options) failure(err error) any {
	if o.Failure != nil {
		return o.Failure(err)
	}
	return NewFailure(err)
}

func exitCode(ctx context.Context, err error) int {
	var usage UsageError
	var own interface{ ExitCode() int }
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrReported):
		return ExitFailure
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &own):
		return own.ExitCode()
	}
	return ExitFailure
}

// wantsJSON reports whether an error shall be an object: also where flags were
// not read because the command line is wrong.
func (o *Options) wantsJSON(args []string, err error) bool {
	if usage := (UsageError{}); o.JSON || !errors.As(err, &usage) {
		return o.JSON
	}
	return asksJSON(args)
}

// asksJSON reports whether arguments have --json, as far as they are flags of this program.
func asksJSON(args []string) (wanted bool) {
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
