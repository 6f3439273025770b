// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// These tests use the kernel, which must log no warning.
func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }
