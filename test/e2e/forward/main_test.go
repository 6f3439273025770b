// SPDX-License-Identifier: Apache-2.0

// Package forward tests fast forwarding. Its tests run one after the other: they
// hold the agent to how soon it sees a change.
package forward

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
