// SPDX-License-Identifier: Apache-2.0

// Package history tests what agents keep of the last hour, and waymark top.
package history

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }
