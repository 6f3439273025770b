// SPDX-License-Identifier: Apache-2.0

// Package collect tests `waymark collect` as users run it.
package collect

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
