// SPDX-License-Identifier: Apache-2.0

package eventlog

import "time"

// MostLines is how many events of a minute an operator's log has lines of.
const MostLines = 20

// Lines bounds the lines of events in an operator's log. The zero value is ready; one goroutine uses it at a time.
type Lines struct {
	began            time.Time
	written, leftOut int
}

// Next reports whether an event gets a line. Once in a minute, it also says how many events of the minute before got
// none.
func (l *Lines) Next(now time.Time) (write bool, leftOut int) {
	if now.Sub(l.began) >= time.Minute {
		leftOut = l.leftOut
		*l = Lines{began: now}
	}
	if l.written == MostLines {
		l.leftOut++
		return false, leftOut
	}
	l.written++
	return true, leftOut
}
