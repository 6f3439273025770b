// SPDX-License-Identifier: Apache-2.0

// Package undo takes back the steps of a change that fails.
package undo

import "errors"

// Stack is how the steps of a change are taken back: the last one first. The zero value is
// a change without steps.
type Stack struct{ steps []func() error }

// Add says how the step that was just done is taken back.
func (s *Stack) Add(back func() error) { s.steps = append(s.steps, back) }

// AddClose says the same of a step whose end cannot fail.
func (s *Stack) AddClose(back func()) {
	s.Add(func() error {
		back()
		return nil
	})
}

// Done is how many steps were done. They can be kept while later ones are taken back.
func (s *Stack) Done() int { return len(s.steps) }

// BackTo takes back all steps but the first ones, each even if another one fails.
func (s *Stack) BackTo(done int) error {
	var errs []error
	for len(s.steps) > done {
		last := len(s.steps) - 1
		back := s.steps[last]
		s.steps = s.steps[:last]
		errs = append(errs, back())
	}
	return errors.Join(errs...)
}

// Keep forgets how the steps are taken back: the change has succeeded.
func (s *Stack) Keep() { s.steps = nil }

// OnError takes back all steps if the change has failed, and joins what fails meanwhile. It
// is to be deferred.
func (s *Stack) OnError(err *error) {
	if *err != nil {
		*err = errors.Join(*err, s.BackTo(0))
	}
}
