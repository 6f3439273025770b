// SPDX-License-Identifier: Apache-2.0

// Package problem has the error that says what to do about it. Who shows an error in two
// parts, such as a warning, a log or an object of JSON, takes them from here, and never cuts its text.
package problem

import (
	"errors"
	"strings"
)

// Problem is what is wrong, and its cure.
type Problem struct {
	Text string // what is wrong
	Cure string // what to do about it; "" if that is not known

	cause error
}

// Code names an error for programs, where its cure depends on who asks; most errors have none.
type Code string

// New makes a problem that has no cause besides its text.
func New(text, cure string) *Problem { return &Problem{Text: text, Cure: cure} }

// Wrap gives an error a cure, in place of the one that it may have.
func Wrap(err error, cure string) *Problem {
	text, _ := Of(err)
	return &Problem{Text: text, Cure: cure, cause: err}
}

// Append gives an error a cure, after the one that it may have.
func Append(err error, cure string) *Problem {
	p := Wrap(err, cure)
	if _, own := Of(err); own != "" {
		p.Cure = own + "; " + cure
	}
	return p
}

// Error is the text and the cure, as one sentence.
func (p *Problem) Error() string { return p.Text + p.suffix() }

// suffix is the cure after a text.
func (p *Problem) suffix() string {
	if p.Cure == "" {
		return ""
	}
	return "; " + p.Cure
}

// Unwrap is the cause, if there is one.
func (p *Problem) Unwrap() error { return p.cause }

// Of is what is wrong by an error, without its cure, and the cure; both are empty for nil. What
// others have written before the problem, as in "open a socket: %w", belongs to the text. If they
// have written something after it, the whole error is the text.
func Of(err error) (text, cure string) {
	if err == nil {
		return "", ""
	}
	text = err.Error()
	var p *Problem
	if !errors.As(err, &p) {
		return text, ""
	}
	before, ok := strings.CutSuffix(text, p.Error())
	if !ok {
		return text, ""
	}
	return before + p.Text, p.Cure
}
