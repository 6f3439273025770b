// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// Networks come and go here, with traffic: the kernel must not log anything about them.
func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }
