// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/collector/internal/store"
)

// Instead is what came in a time in which no packet with its path did.
type Instead struct {
	Flows     uint64 `json:"flow_records"`
	Postcards uint64 `json:"postcards"`
	Text      string `json:"text"`
	Cure      string `json:"cure"`
}

// addInstead says what came instead of packets, of the flows that the question selects. Nothing is said of a question
// with a condition, or about where packets passed: it is one about packets.
func (q *Queries) addInstead(ctx context.Context, ask *PathsQuestion, a *Paths) error {
	if a.Packets > 0 || ask.Where != nil || ask.Passing != (Passing{}) || a.Files == 0 {
		return nil
	}
	of, there := &FlowsQuestion{Range: ask.Range, Flows: ask.Flows}, &Answer{}
	return q.ask(ctx, ask.Range, there, func(ctx context.Context, r *store.Reading) error {
		found := &Instead{}
		for _, c := range []struct {
			table string
			into  *uint64
		}{{"flow", &found.Flows}, {"postcard", &found.Postcards}} {
			p := &parameters{}
			query := "SELECT count(*) FROM (" + store.Union(r.Files, "SELECT 1 FROM FILE("+c.table+") WHERE "+of.where(c.table, p)) + ")"
			err := rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error { return scan(c.into) })
			if err != nil {
				return err
			}
		}
		if found.Flows > 0 || found.Postcards > 0 {
			found.say()
			a.Instead = found
		}
		return nil
	})
}

// say makes the sentence.
func (i *Instead) say() {
	var came, cures []string
	if i.Flows > 0 {
		came = append(came, numbered(i.Flows, "record of aggregated flows", "records of aggregated flows"))
		cures = append(cures, "set export: sample or every on all nodes")
	}
	if i.Postcards > 0 {
		came = append(came, numbered(i.Postcards, "single postcard without Flow-ID, Sequence Number or role",
			"single postcards without Flow-ID, Sequence Number or role"))
		cures = append(cures, "let encapsulations insert flow-id and sequence")
	}
	i.Text = "no packet with its path came in this time, but " + strings.Join(came, " and ") + " did"
	i.Cure = "/v1/flows and waymark flow history show them; to see paths, " + strings.Join(cures, ", and ")
}

func numbered(n uint64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
