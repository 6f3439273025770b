// SPDX-License-Identifier: Apache-2.0

package main

import "os"

// Tests see what a reader with letters beyond ASCII sees, 80 columns wide, wherever they run.
func init() {
	os.Setenv("LC_ALL", "C.UTF-8")
	os.Unsetenv("COLUMNS")
	os.Unsetenv("NO_COLOR")
}
