// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// A program drops packets in the kernel here, which must not warn of it.
func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }
