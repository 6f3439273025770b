// SPDX-License-Identifier: Apache-2.0

package history

import (
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// events shows the latest first: when, what happened, and who found it.
func (p *page) events(a *events) error {
	if err := p.line("%s, %s, the latest first", columns.Counted(len(a.Events), "event"), a.span()); err != nil {
		return err
	}
	for i := range a.Events {
		e := &a.Events[i]
		text := problem.OneLine(e.Text)
		if e.Cure != "" {
			text += "; " + problem.OneLine(e.Cure)
		}
		if e.Node != "" {
			text += " (" + record.Printable(e.Node) + ")"
		}
		if err := p.line("%s  %s: %s", e.Time.UTC().Format("2006-01-02 15:04:05"), record.Printable(e.Name), text); err != nil {
			return err
		}
	}
	return nil
}
