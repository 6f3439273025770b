// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/instant"
)

// PathVerdict is what became of a path's packet, as far as is known.
type PathVerdict uint8

// Verdicts. The zero value is that of records without one.
const (
	PathArrived PathVerdict = 1 // a decapsulating node reported it
	PathLost    PathVerdict = 2 // every node after the last one has reported that time, but not the packet
	PathUnknown PathVerdict = 3 // it is not known
)

var verdictNames = map[PathVerdict]string{PathArrived: "arrived", PathLost: "lost", PathUnknown: "unknown"}

// String is the verdict in a word.
func (v PathVerdict) String() string { return named(verdictNames, v) }

// UnmarshalText reads a verdict's word.
func (v *PathVerdict) UnmarshalText(text []byte) (err error) {
	*v, err = lookUp(verdictNames, string(text))
	return err
}

// Doubt is why it is not known whether an exporter saw a packet.
type Doubt uint8

// Doubts.
const (
	DoubtNone          Doubt = iota
	DoubtNoneAfter           // no exporter is known to be after the last node
	DoubtNoEnd               // no decapsulating node is known to be after it
	DoubtUnheard             // it does not say until when it has reported
	DoubtBegan               // it is known only since a later time
	DoubtLate                // it has not reported that time yet
	DoubtGap                 // messages of that time are missing, or packets may have passed it without its programs
	DoubtNotUnderstood       // records of that time were not understood
	DoubtSuppressed          // its export limits suppressed postcards of that time
	DoubtDropped             // it lost records of that time
	DoubtSampled             // it makes a postcard of only some packets, not of this one
	DoubtChanged             // the exporter restarted, and has not been after the last node since
	DoubtTime                // the last node did not say when it saw the packet, or one after it never does
	DoubtEnded               // the path was printed before the wait was over
	DoubtTooMany             // more exporters are after the last node than are remembered

	// NumDoubts is the number of doubts; 0 is none.
	NumDoubts
)

var doubts = [NumDoubts]struct{ name, text string }{
	DoubtNone:          {"none", ""},
	DoubtNoneAfter:     {"none_after", "no node after it is known yet"},
	DoubtNoEnd:         {"no_end", "no decapsulating node after it is known yet"},
	DoubtUnheard:       {"unheard", "%s does not say until when it has reported"},
	DoubtBegan:         {"began", "%s is known only since %s"},
	DoubtLate:          {"late", "%s has not reported since %s"},
	DoubtGap:           {"gap", "messages of %s are missing, or its programs did not run"},
	DoubtNotUnderstood: {"not_understood", "records of %s were not understood"},
	DoubtSuppressed:    {"suppressed", "the export limits of %s suppressed postcards"},
	DoubtDropped:       {"dropped", "%s lost records"},
	DoubtSampled:       {"sampled", "%s makes no postcard of this packet"},
	DoubtChanged:       {"changed", "%s began anew at %s, and has not reported such packets since"},
	DoubtTime:          {"no_time", "its time is not known"},
	DoubtEnded:         {"ended", ""},
	DoubtTooMany:       {"too_many", "more nodes come after it than are remembered"},
}

// String is the doubt in a word.
func (d Doubt) String() string {
	if d >= NumDoubts {
		return "other"
	}
	return doubts[d].name
}

// UnmarshalText reads a doubt's word. An unknown one, as of a later version, is not an
// error.
func (d *Doubt) UnmarshalText(text []byte) error {
	*d = NumDoubts
	for i, each := range doubts {
		if each.name == string(text) {
			*d = Doubt(i)
		}
	}
	return nil
}

// Doubtful is why it is not known whether a packet was lost, and of which exporter.
type Doubtful struct {
	Node     string
	Exporter netip.Addr // invalid: of none
	Doubt    Doubt
	Since    instant.Time // see the texts
}

var doubtfulTable = table[*Doubtful]{
	field("node", "", meaningNode, func(d *Doubtful) *string { return &d.Node }, present(textual())),
	field(
		"exporter",
		"",
		"Address from which its records came; absent where the cause is of no exporter.",
		func(d *Doubtful) *netip.Addr { return &d.Exporter },
		present(address()),
	),
	field(
		"cause",
		"",
		"[The causes](../how-to/collect-postcards.md#lost-or-not-known).",
		func(d *Doubtful) *Doubt { return &d.Doubt },
		kept(word[Doubt]()),
	),
	field(
		"since",
		"",
		"Of `late`: until when the exporter has reported. Of `began` and `changed`: since when it is known.",
		func(d *Doubtful) *instant.Time { return &d.Since },
		moment(),
	),
}

// text is the doubt as a part of a sentence.
func (d *Doubtful) text() string {
	if d.Doubt >= NumDoubts {
		return ""
	}
	name := Printable(d.Node)
	if name == "" && d.Exporter.IsValid() {
		name = d.Exporter.String()
	}
	switch text := doubts[d.Doubt].text; strings.Count(text, "%s") {
	case 1:
		return fmt.Sprintf(text, name)
	case 2:
		return fmt.Sprintf(text, name, d.Since)
	default:
		return text
	}
}
