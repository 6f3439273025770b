// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// The parts of an error are those that it was made of, whatever they contain and whatever was
// written before it; the whole text is always the error's own.
func TestOf(t *testing.T) {
	taken := New("port 862 is taken", "stop the other program; or choose another port")
	denied := Wrap(fmt.Errorf("listen: %w", fs.ErrPermission), "run as root")
	for _, tt := range []struct {
		name       string
		err        error
		text, cure string
	}{
		{"no error", nil, "", ""},
		{"an error without a cure", errors.New("no route; none at all"), "no route; none at all", ""},
		{"a problem", taken, "port 862 is taken", "stop the other program; or choose another port"},
		{"a problem whose text has a semicolon", New("it is down; so is the other", "raise both"), "it is down; so is the other", "raise both"},
		{"a problem without a cure", New("it is down", ""), "it is down", ""},
		{"words before it", fmt.Errorf("open a socket: %w", taken), "open a socket: port 862 is taken", "stop the other program; or choose another port"},
		{"words after it", fmt.Errorf("%w (twice)", denied), "listen: permission denied; run as root (twice)", ""},
		{"a cause", denied, "listen: permission denied", "run as root"},
		{"another cure", Wrap(denied, "give it CAP_NET_RAW"), "listen: permission denied", "give it CAP_NET_RAW"},
		{"a further cure", Append(denied, "or stop"), "listen: permission denied", "run as root; or stop"},
		{"a cure for an error without one", Append(fs.ErrExist, "stop"), "file already exists", "stop"},
		{"another cure, after words", fmt.Errorf("ask: %w", Wrap(denied, "give it CAP_NET_RAW")), "ask: listen: permission denied", "give it CAP_NET_RAW"},
	} {
		if text, cure := Of(tt.err); text != tt.text || cure != tt.cure {
			t.Errorf("%s: %q and %q; want %q and %q", tt.name, text, cure, tt.text, tt.cure)
		}
	}
	if got := fmt.Errorf("ask: %w", denied).Error(); got != "ask: listen: permission denied; run as root" {
		t.Error(got)
	}
	if !errors.Is(Wrap(denied, "x"), fs.ErrPermission) || errors.Is(taken, fs.ErrPermission) {
		t.Error("the cause is lost, or is another one's")
	}
}
