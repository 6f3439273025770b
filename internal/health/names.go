// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"time"
)

// NamesFrom is what became of questions for the names of other nodes.
type NamesFrom struct {
	Collector string        // its URL
	Silent    time.Duration // since its last answer, or since it is asked
	Long      time.Duration // from when on that is worth a warning
	Why       string        // what became of the last question; "": nothing yet
	Known     int           // ids with names that it told
}

// UnansweredNames warns of a collector that has not told names for long.
func UnansweredNames(n NamesFrom) []Warning {
	if n.Silent < n.Long || n.Why == "" {
		return nil
	}
	used := "nodes without a name in the file are shown by their ids"
	if n.Known > 0 {
		used = fmt.Sprintf("what it said before is still used, names for %d ids", n.Known)
	}
	return []Warning{New(NamesUnanswered, "",
		fmt.Sprintf("the collector %s has not told names for %v: %s; %s", n.Collector, n.Silent.Round(time.Second), n.Why, used),
		fmt.Sprintf("look at the collector and the way there: curl '%s/v1/names?limit=1'; or correct names-from, or remove it", n.Collector))}
}
