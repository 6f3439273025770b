// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"errors"
	"strings"
	"testing"
)

// failing is a test of which only the result and the log matter.
type failing struct {
	testing.TB
	failed  bool
	log     []any
	cleanup func()
}

func (f *failing) Helper()           {}
func (f *failing) Failed() bool      { return f.failed }
func (f *failing) Log(args ...any)   { f.log = append(f.log, args...) }
func (f *failing) Cleanup(do func()) { f.cleanup = do }

// A test that fails on a machine with the switch names it, whatever it tests; others say nothing.
func TestHooksAreNamed(t *testing.T) {
	defer func(before func() ([]byte, error)) { readHooks = before }(readHooks)
	for _, tt := range []struct {
		name   string
		text   string
		err    error
		failed bool
		named  bool
	}{
		{"set", "1\n", nil, true, true},
		{"set, and passed", "1\n", nil, false, false},
		{"not set", "0\n", nil, true, false},
		{"no such switch", "", errors.New("not there"), true, false},
	} {
		readHooks = func() ([]byte, error) { return []byte(tt.text), tt.err }
		f := &failing{failed: tt.failed}
		NameHooks(f)
		f.cleanup()
		if named := len(f.log) == 1 && strings.Contains(f.log[0].(string), HooksSwitch); named != tt.named || len(f.log) > 1 {
			t.Errorf("%s: log %q", tt.name, f.log)
		}
	}
}
