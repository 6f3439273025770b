// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}
}

// A user who may not open the socket learns this, and callers can tell it from an agent
// that does not answer.
func TestClosedSocket(t *testing.T) {
	c := NewClient("/run/waymark/x/agent.sock")
	c.http.Transport = refusing{}
	_, err := c.Warnings(t.Context())
	if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNoAgent) ||
		!strings.Contains(err.Error(), "agent.sock may not be opened; run it as root") {
		t.Errorf("%v", err)
	}
}
