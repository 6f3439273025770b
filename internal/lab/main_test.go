// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/kmsgtest"
)

// Networks come and go here, and traffic crosses them: the kernel must have
// nothing to say about it.
func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }
