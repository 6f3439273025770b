// SPDX-License-Identifier: Apache-2.0

package delay

import "time"

// Held is how long another node had a packet, by its times of arrival and departure in
// nanoseconds. It is false if that cannot be: the time is negative, or longer than it took until
// the answer was here. The clock of that node is then set or wrong, and neither of its times
// measures anything.
func Held(arrived, left int64, round time.Duration) (held time.Duration, ok bool) {
	held = time.Duration(left - arrived)
	return held, left >= arrived && held >= 0 && held <= round
}
