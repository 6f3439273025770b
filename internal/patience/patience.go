// SPDX-License-Identifier: Apache-2.0

// Package patience stretches the times that laboratories and tests allow, for
// machines far slower than a CPU: emulators, and hosts with much else to do.
// Nothing that serves packets asks it.
package patience

import (
	"os"
	"strconv"
	"sync"
	"time"
)

// Variable is the environment variable that holds the factor.
const Variable = "WAYMARK_PATIENCE"

// most keeps products of every time that is allowed within a time.Duration.
const most = 1000

var factor = sync.OnceValue(func() time.Duration { return parse(os.Getenv(Variable)) })

// parse is the factor that a text means: a whole number from 1 to 1000, else 1.
func parse(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 1
	}
	return time.Duration(n)
}

// Of is how long to wait for what takes less than d on a machine of its own.
func Of(d time.Duration) time.Duration { return factor() * d }
