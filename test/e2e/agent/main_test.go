// SPDX-License-Identifier: Apache-2.0

// Package agent tests agents that start, reload, end and meet errors.
package agent

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
