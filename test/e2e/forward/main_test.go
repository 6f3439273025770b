// SPDX-License-Identifier: Apache-2.0

// Package forward tests fast forwarding. Tests that bound how soon the agent sees
// a change run one after the other, before the rest, which run in parallel.
package forward

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
