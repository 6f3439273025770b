// SPDX-License-Identifier: Apache-2.0

package record

import (
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
)

// Warning is what a collector says when a flow begins or ceases to be beyond a threshold, or
// when it ceases to know.
type Warning struct {
	Time   instant.Time
	Code   string // of the warning
	Flow   string // the flow's name; "" if it has none
	FlowID loss.FlowID
	Beyond bool
	Facts  string
	Cure   string // "" if the flow is within the threshold again
}

// Kind is "warning".
func (w *Warning) Kind() string { return KindWarning }

// warnings declares the fields of a Warning.
var warnings = table[*Warning]{
	field("time", "", "When the collector found this, by its clock.", func(w *Warning) *instant.Time { return &w.Time }, moment()),
	field(
		"code",
		"",
		"Code of the [warning](warnings.md): `flow_loss_high` or `flow_delay_high`.",
		func(w *Warning) *string { return &w.Code },
		textual(),
	),
	field("flow", "", "Name of the flow, absent when it has none.", func(w *Warning) *string { return &w.Flow }, present(textual())),
	field(
		"flow_id",
		"",
		"Number of the flow, the same at all its points.",
		func(w *Warning) *loss.FlowID { return &w.FlowID },
		number[loss.FlowID](),
	),
	field(
		"beyond",
		"",
		"Whether the flow is beyond the threshold from now on, as far as the collector knows.",
		func(w *Warning) *bool { return &w.Beyond },
		truth(),
	),
	field("text", "", "What happened, with numbers.", func(w *Warning) *string { return &w.Facts }, textual()),
	field(
		"cure",
		"",
		"What to do; absent when the flow is within the threshold again.",
		func(w *Warning) *string { return &w.Cure },
		present(textual()),
	),
}

// Text is the warning as a line of readable text.
func (w *Warning) Text() string {
	if w.Cure == "" {
		return w.Code + " has ended: " + w.Facts + "\n"
	}
	return w.Code + ": " + w.Facts + "; " + w.Cure + "\n"
}
