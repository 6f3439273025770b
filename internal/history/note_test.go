// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/collectorapi"
	"github.com/waymark-net/waymark/internal/columns"
)

// What a cut answer lacks is said in the words of the command, whatever the texts contain.
func TestNoteOfCutAnswer(t *testing.T) {
	byLimit := collectorapi.Cut{Reason: "limit", Text: "more than 5; of two; ask less, or raise limit", Problem: "more than 5; of two"}
	search := collectorapi.Cut{Reason: "search", Text: "only the latest; ask for less", Problem: "only the latest"}
	earlier := collectorapi.Cut{Reason: "limit", Text: "there are more; raise limit"} // of a collector that has no problem apart
	for _, tt := range []struct {
		cut     collectorapi.Cut
		limited bool
		want    string
	}{
		{byLimit, false, "the answer is cut: more than 5; of two; ask for less time or fewer addresses, or raise --limit"},
		{byLimit, true, "more than 5; of two; --limit says how many are shown"},
		{search, false, "the answer is cut: only the latest; ask for less"},
		{search, true, "the answer is cut: only the latest; ask for less"},
		{earlier, true, "the answer is cut: there are more; raise limit"},
	} {
		var out strings.Builder
		(&answer{Cut: &tt.cut}).writeNote(&out, columns.Screen{}, tt.limited, "fewer addresses")
		if got := out.String(); got != "waymark: "+tt.want+"\n" {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// What to ask for instead is what the command has flags for.
func TestAdviceHasFlags(t *testing.T) {
	for i := range Subjects {
		s := &Subjects[i]
		answer := `{` + inTime + `,"cut":{"reason":"limit","text":"x","problem":"there are more than 100"}}`
		_, _, notes := ask(t, s.Noun, answer)
		want := map[string]string{"delay": "one --flow", "events": "one --event or --node"}[s.Noun]
		if want == "" {
			want = "fewer addresses"
		}
		if !strings.Contains(notes, "ask for less time or "+want+", or raise --limit") {
			t.Errorf("%s history: %q", s.Noun, notes)
		}
	}
}
