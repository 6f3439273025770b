// SPDX-License-Identifier: Apache-2.0

// Package trace tests traces of real traffic: every packet arrives with a
// complete trace.
package trace

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
