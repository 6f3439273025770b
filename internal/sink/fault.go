// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/problem"
)

// Fault is why the last attempt of a sink failed, for several goroutines. The zero value is none.
type Fault struct {
	last atomic.Pointer[problem.Problem]
}

// Set sets the error of an attempt; nil: it succeeded.
func (f *Fault) Set(err error) {
	if err == nil {
		f.last.Store(nil)
		return
	}
	text, cure := problem.Of(err)
	f.last.Store(problem.New(problem.OneLine(text), problem.OneLine(cure)))
}

// Parts are the error and its cure, each in one line; "" is none.
func (f *Fault) Parts() (text, cure string) {
	p := f.last.Load()
	if p == nil {
		return "", ""
	}
	return p.Text, p.Cure
}
